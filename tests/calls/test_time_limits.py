"""Time limits bind whatever a handler does. Nothing here waits: time is virtual."""

import asyncio
import threading
import time

import pytest

from tests.calls.runs import failure, invoked, run
from tests.helpers.patience import PATIENCE
from toolcrib import Approve, Executor, Limits, Outcome, Session, ToolContext, tool
from toolcrib.calls.execute import STOP_GRACE_SECONDS
from toolcrib.testing import run_in_virtual_time


@tool(timeout=5)
async def slow(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "done"


def passed(started_at: float) -> float:
    return asyncio.get_running_loop().time() - started_at


class TestAsync:
    def test_a_slow_handler_is_stopped_at_its_limit(self) -> None:
        """R18: the call is over at its limit, with the seconds in the message."""

        async def scene() -> tuple[Outcome, float]:
            started_at = asyncio.get_running_loop().time()
            return (await run(slow, {"seconds": 60})).outcome, passed(started_at)

        outcome, seconds = run_in_virtual_time(scene())

        assert outcome.failure is not None
        assert outcome.failure.kind == "timeout"
        assert outcome.text == "`slow` did not finish within 5 seconds."
        assert not outcome.failure.still_running
        assert 5 <= seconds < 5.5

    def test_a_handler_within_its_limit_is_left_alone(self) -> None:
        """A limit costs a quick handler nothing."""
        ended = run_in_virtual_time(run(slow, {"seconds": 4.5}))

        assert ended.outcome.value == "done"

    def test_a_limit_may_be_less_than_a_second(self) -> None:
        """A short limit is a limit like others."""

        @tool(timeout=0.5)
        async def quick(seconds: float) -> str:
            """Be quick."""
            await asyncio.sleep(seconds)
            return "done"

        assert run_in_virtual_time(run(quick, {"seconds": 0.4})).outcome.ok
        late = run_in_virtual_time(run(quick, {"seconds": 0.6}))
        assert late.outcome.text == "`quick` did not finish within 0.5 seconds."

    def test_the_handler_is_cancelled(self) -> None:
        """R18: at the limit the handler is told to stop, and can clean up."""
        seen: list[str] = []

        @tool(timeout=5)
        async def careful() -> str:
            """Clean up."""
            try:
                await asyncio.sleep(60)
            finally:
                seen.append("cleaned up")
            return "done"

        assert run_in_virtual_time(run(careful)).failure == "timeout"
        assert seen == ["cleaned up"]

    def test_a_result_given_after_the_limit_is_no_result(self) -> None:
        """R18: a handler that answers its cancellation with a value still timed out."""

        @tool(timeout=5)
        async def stubborn() -> str:
            """Answer anyway."""
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return "too late"
            return "done"

        ended = run_in_virtual_time(run(stubborn))

        assert ended.failure == "timeout"
        assert ended.outcome.value is None

    def test_a_handler_that_ignores_cancellation_is_given_up(self) -> None:
        """R18: after a grace the call ends without the handler, and says that it still runs."""
        let_go = asyncio.Event()

        @tool(timeout=5)
        async def deaf() -> str:
            """Never stop."""
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return "done"

        async def scene() -> tuple[Outcome, float]:
            started_at = asyncio.get_running_loop().time()
            outcome = (await run(deaf)).outcome
            seconds = passed(started_at)
            let_go.set()
            return outcome, seconds

        outcome, seconds = run_in_virtual_time(scene())

        assert outcome.failure is not None
        assert outcome.failure.still_running
        assert "still running" in outcome.text
        assert 5 + STOP_GRACE_SECONDS <= seconds < 5.5 + STOP_GRACE_SECONDS

    def test_a_handler_that_stops_late_is_forgotten(self, caplog: pytest.LogCaptureFixture) -> None:
        """A handler that obeys its cancellation after it was given up is not worth a word."""
        let_go = asyncio.Event()

        @tool(timeout=5)
        async def slow_to_stop() -> str:
            """Stop, but late."""
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            raise asyncio.CancelledError

        async def scene() -> None:
            await run(slow_to_stop)
            let_go.set()
            await asyncio.sleep(1)

        run_in_virtual_time(scene())

        assert caplog.records == []

    def test_a_handler_that_blocked_the_loop_past_its_limit_timed_out(self) -> None:
        """R18: nobody could stop it, but its late result is not taken."""

        @tool(timeout=0.01)
        async def blocking() -> str:
            """Block."""
            ends_at = time.monotonic() + 0.02
            while time.monotonic() < ends_at:
                pass
            return "done"

        ended = asyncio.run(run(blocking))

        assert ended.failure == "timeout"
        assert ended.outcome.value is None

    @pytest.mark.parametrize("limit", [None, 5.0])
    def test_the_tools_own_timeout_error_is_a_tool_error(self, limit: float | None) -> None:
        """R18, T34: a TimeoutError that a handler raises is its own failure, not our limit."""

        @tool(timeout=limit)
        async def fetch() -> str:
            """Fetch."""
            async with asyncio.timeout(1):
                await asyncio.sleep(60)
            return "done"

        ended = run_in_virtual_time(run(fetch))

        assert ended.failure == "tool_error"
        assert ended.outcome.text.startswith("TimeoutError")


class TestThreads:
    def test_a_blocking_thread_is_given_up(self) -> None:
        """R18: a thread cannot be stopped; the call ends at its limit and says it still runs."""
        let_go = threading.Event()

        @tool(timeout=5)
        def block() -> str:
            """Block."""
            let_go.wait(PATIENCE)
            return "done"

        async def scene() -> tuple[Outcome, float]:
            started_at = asyncio.get_running_loop().time()
            return (await run(block)).outcome, passed(started_at)

        outcome, seconds = run_in_virtual_time(scene())
        let_go.set()

        assert outcome.failure is not None
        assert outcome.failure.kind == "timeout"
        assert outcome.failure.still_running
        assert 5 <= seconds < 5.5

    def test_a_thread_that_was_given_up_may_end_after_the_loop(self) -> None:
        """A result that nobody waits for any more is dropped without a word."""
        let_go, ended = threading.Event(), threading.Event()

        @tool(timeout=5)
        def block() -> str:
            """Block."""
            let_go.wait(PATIENCE)
            ended.set()
            return "done"

        assert run_in_virtual_time(run(block)).failure == "timeout"

        # A warning from the worker thread would fail the test run.
        let_go.set()
        assert ended.wait(PATIENCE)


class TestWhichLimit:
    def test_the_executors_limit_is_for_tools_without_one(self) -> None:
        """T34, T37: a tool that sets no limit gets the default one."""

        @tool
        async def endless() -> str:
            """Never end."""
            await asyncio.Event().wait()
            return "done"

        ended = run_in_virtual_time(run(endless, limits=Limits(timeout=7)))

        assert ended.outcome.text == "`endless` did not finish within 7 seconds."

    def test_the_tools_own_limit_comes_first(self) -> None:
        """T34: a tool's own limit counts, also when it is longer than the default."""
        ended = run_in_virtual_time(run(slow, {"seconds": 4.5}, limits=Limits(timeout=1)))

        assert ended.outcome.ok

    def test_without_a_limit_a_call_takes_as_long_as_it_takes(self) -> None:
        """T34: no limit is no limit."""

        @tool
        async def patient() -> str:
            """Take a day."""
            await asyncio.sleep(86_400)
            return "done"

        assert run_in_virtual_time(run(patient)).outcome.ok

    @pytest.mark.parametrize(("left", "kind"), [(2.0, "timeout"), (4.9, None)])
    def test_a_deadline_comes_before_a_longer_limit(self, left: float, kind: str | None) -> None:
        """The caller's deadline and the tool's limit both bind; the earlier one counts."""

        async def scene() -> Outcome:
            executor = Executor(Session(), [slow])
            deadline = asyncio.get_running_loop().time() + left
            return await executor.call("slow", {"seconds": 4}, deadline=deadline)

        outcome = run_in_virtual_time(scene())

        assert (outcome.failure.kind if outcome.failure else None) == kind

    def test_a_call_whose_deadline_has_passed_does_not_begin(self) -> None:
        """With no time left, nothing of the handler runs: it would be cut off half way."""
        ran: list[str] = []

        @tool
        async def quick() -> str:
            """Be quick."""
            ran.append("quick")
            return "done"

        session = Session()

        async def scene() -> Outcome:
            executor = Executor(session, [quick])
            return await executor.call("quick", deadline=asyncio.get_running_loop().time() - 1)

        outcome = run_in_virtual_time(scene())

        assert outcome.failure is not None
        assert outcome.failure.kind == "timeout"
        assert ran == []
        assert [ended.failure for ended in invoked(session)] == [outcome.failure]

    @pytest.mark.parametrize("way", ["resume", "call"])
    def test_a_deadline_holds_for_a_call_that_goes_on(self, way: str) -> None:
        """What waited for a person gets no more time than whoever takes it up has."""
        session = Session()

        @tool(requires_approval=True)
        async def slow() -> str:
            """Take an hour."""
            await asyncio.sleep(3600)
            return "done"

        async def scene() -> Outcome:
            executor = Executor(session, [slow])
            await executor.call("slow", call_id="c1")
            await session.approvals.decide("c1", Approve(), by="jo")
            deadline = asyncio.get_running_loop().time() + 5
            if way == "call":
                return await executor.call("slow", call_id="c1", deadline=deadline)
            return (await executor.resume(deadline=deadline))[0]

        outcome = run_in_virtual_time(scene())

        assert failure(outcome) == "timeout"

    def test_the_handler_knows_its_deadline(self) -> None:
        """A handler can see how long it has, and pass that on to services."""
        left: list[float] = []

        @tool(timeout=5)
        async def look(ctx: ToolContext) -> str:
            """Look at the clock."""
            assert ctx.deadline is not None
            left.append(ctx.deadline - asyncio.get_running_loop().time())
            return "done"

        run_in_virtual_time(run(look))

        assert left == [pytest.approx(5, abs=0.1)]
