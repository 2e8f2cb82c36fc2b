"""Cancelling one call, or whoever awaits it. The two are never mistaken for each other."""

import asyncio
import gc
import threading

import pytest

from tests.calls.runs import failure, invoked, run
from tests.helpers.patience import PATIENCE
from toolcrib import Executor, Outcome, Session, ToolContext, ToolInvoked, tool
from toolcrib.testing import run_in_virtual_time

LIMITS = pytest.mark.parametrize("limit", [None, 60.0], ids=["no limit", "limit"])


class Bench:
    """A tool that waits to be stopped, and one that nobody stops."""

    def __init__(self, limit: float | None = None) -> None:
        self.running = asyncio.Event()
        self.seen: list[str] = []
        self.session = Session()

        @tool(timeout=limit)
        async def wait() -> str:
            """Wait."""
            self.running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.seen.append("cancelled")
                raise
            return "done"

        @tool(timeout=limit)
        async def swallow() -> str:
            """Answer a cancellation with a value."""
            self.running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "swallowed"
            return "done"

        @tool(timeout=limit)
        async def turn_over() -> str:
            """Answer a cancellation with another error."""
            self.running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError("turned over") from None
            return "done"

        @tool(timeout=limit)
        async def stop_itself(ctx: ToolContext) -> str:
            """Cancel the own call, and go on."""
            assert self.executor.cancel(ctx.call_id)
            return "done"

        self.executor = Executor(self.session, [wait, swallow, turn_over, stop_itself])

    async def cancel_soon(self, call_id: str) -> bool:
        await self.running.wait()
        self.running.clear()
        return self.executor.cancel(call_id)


class TestOneCall:
    @LIMITS
    @pytest.mark.parametrize("name", ["wait", "swallow", "turn_over"])
    async def test_a_cancelled_call_ends_and_its_awaiter_goes_on(
        self, limit: float | None, name: str
    ) -> None:
        """`cancel` stops one call; whatever its handler makes of that, the outcome says so and
        the task that awaits it is not cancelled.
        """
        bench = Bench(limit)
        cancelling = asyncio.create_task(bench.cancel_soon("c1"))

        outcome = await bench.executor.call(name, call_id="c1")

        assert await cancelling
        assert failure(outcome) == "cancelled"
        assert outcome.value is None
        assert outcome.error is None
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        (ended,) = invoked(bench.session)
        assert ended.failure == outcome.failure

    @LIMITS
    async def test_cancellation_reaches_the_handler(self, limit: float | None) -> None:
        """The handler is told to stop and can clean up."""
        bench = Bench(limit)
        cancelling = asyncio.create_task(bench.cancel_soon("c1"))

        await bench.executor.call("wait", call_id="c1")
        await cancelling

        assert bench.seen == ["cancelled"]

    @LIMITS
    async def test_one_call_after_the_other_can_be_cancelled(self, limit: float | None) -> None:
        """A cancellation that was dealt with leaves nothing behind in the awaiter's task."""
        bench = Bench(limit)
        kinds: list[str | None] = []

        for name in ("swallow", "turn_over", "wait"):
            cancelling = asyncio.create_task(bench.cancel_soon(name))
            kinds.append(failure(await bench.executor.call(name, call_id=name)))
            await cancelling

        assert kinds == ["cancelled"] * 3

    @LIMITS
    async def test_a_call_that_cancels_itself_cancels_nobody_else(
        self, limit: float | None
    ) -> None:
        """A cancellation that the handler never met does not hit whoever awaits the call."""
        bench = Bench(limit)

        outcome = await bench.executor.call("stop_itself")
        await asyncio.sleep(0)

        assert failure(outcome) == "cancelled"

    async def test_cancelling_twice_is_cancelling_once(self) -> None:
        """An impatient user does not cancel more than one call."""
        bench = Bench()

        async def twice() -> None:
            await bench.running.wait()
            assert bench.executor.cancel("c1")
            assert bench.executor.cancel("c1")

        cancelling = asyncio.create_task(twice())
        outcome = await bench.executor.call("wait", call_id="c1")
        await cancelling

        assert failure(outcome) == "cancelled"

    async def test_a_task_with_a_swallowed_cancellation_can_still_make_calls(self) -> None:
        """A cancellation from before the call is not taken for one of the call."""
        bench = Bench()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        cancelling = asyncio.create_task(bench.cancel_soon("c1"))

        outcome = await bench.executor.call("wait", call_id="c1")
        await cancelling
        task.uncancel()

        assert failure(outcome) == "cancelled"

    async def test_a_thread_is_given_up(self) -> None:
        """R18: a call whose handler blocks a thread can be cancelled, too; as nobody can stop the
        thread, the outcome says that it goes on.
        """
        let_go, running = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        @tool
        def block() -> str:
            """Block."""
            loop.call_soon_threadsafe(running.set)
            let_go.wait(PATIENCE)
            return "done"

        executor = Executor(Session(), [block])

        async def cancel() -> None:
            await running.wait()
            assert executor.cancel("c1")

        cancelling = asyncio.create_task(cancel())
        outcome = await executor.call("block", call_id="c1")
        await cancelling
        let_go.set()

        assert outcome.failure is not None
        assert outcome.failure.kind == "cancelled"
        assert outcome.failure.still_running
        assert "still running" in outcome.text

    def test_a_deaf_handler_is_given_up(self) -> None:
        """R18: a handler with a limit that ignores its cancellation is left behind after a grace,
        and the outcome says that it goes on.
        """
        let_go = asyncio.Event()

        @tool(timeout=60)
        async def deaf() -> str:
            """Never stop."""
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return "done"

        async def scene() -> Outcome:
            executor = Executor(Session(), [deaf])
            asyncio.get_running_loop().call_later(1, executor.cancel, "c1")
            outcome = await executor.call("deaf", call_id="c1")
            let_go.set()
            return outcome

        outcome = run_in_virtual_time(scene())

        assert outcome.failure is not None
        assert outcome.failure.kind == "cancelled"
        assert outcome.failure.still_running

    async def test_other_calls_of_a_batch_go_on(self) -> None:
        """Cancelling one of several calls leaves the others alone."""
        first, second = Bench(), Bench()
        calls = asyncio.gather(
            first.executor.call("wait", call_id="c1"),
            second.executor.call("wait", call_id="c2"),
        )
        await first.running.wait()
        await second.running.wait()

        assert first.executor.cancel("c1")
        await asyncio.sleep(0)
        assert not calls.done()
        assert second.executor.cancel("c2")

        assert [failure(outcome) for outcome in await calls] == ["cancelled", "cancelled"]

    async def test_a_call_that_does_not_run_cannot_be_cancelled(self) -> None:
        """Cancelling what is unknown or over says False and does nothing."""
        bench = Bench()
        assert not bench.executor.cancel("never")
        cancelling = asyncio.create_task(bench.cancel_soon("c1"))

        await bench.executor.call("wait", call_id="c1")
        await cancelling

        assert not bench.executor.cancel("c1")


class TestTheAwaiter:
    @LIMITS
    async def test_a_cancelled_awaiter_is_cancelled(self, limit: float | None) -> None:
        """R19: a cancellation from outside reaches the handler, is recorded, and goes on up."""
        bench = Bench(limit)
        heard: list[ToolInvoked] = []
        bench.session.bus.subscribe(ToolInvoked, heard.append)
        task = asyncio.create_task(bench.executor.call("wait"))
        await bench.running.wait()

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert bench.seen == ["cancelled"]
        (ended,) = invoked(bench.session)
        assert ended.failure is not None
        assert ended.failure.kind == "cancelled"
        assert not ended.failure.still_running
        assert [event.failure for event in heard] == [ended.failure]

    @LIMITS
    async def test_both_at_once_cancel_the_awaiter(self, limit: float | None) -> None:
        """When a call and its awaiter are cancelled together, neither cancellation is lost."""
        bench = Bench(limit)
        task = asyncio.create_task(bench.executor.call("wait", call_id="c1"))
        await bench.running.wait()

        bench.executor.cancel("c1")
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(invoked(bench.session)) == 1

    def test_a_timeout_around_the_call_is_the_awaiters_own(self) -> None:
        """`asyncio.timeout` around a call works as around anything else."""

        async def scene() -> list[ToolInvoked]:
            bench = Bench()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3):
                    await bench.executor.call("wait")
            return invoked(bench.session)

        (ended,) = run_in_virtual_time(scene())

        assert ended.failure is not None
        assert ended.failure.kind == "cancelled"

    def test_a_second_cancellation_during_the_grace_loses_nothing(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An awaiter that is cancelled while a deaf handler is being stopped stops at once; what
        the handler raises later is looked at, not reported as lost.
        """
        let_go = asyncio.Event()

        @tool(timeout=5)
        async def deaf() -> str:
            """Never stop, then fail."""
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            raise ValueError("too late")

        session = Session()

        async def scene() -> None:
            task = asyncio.create_task(_call(session, deaf))
            await asyncio.sleep(5.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            let_go.set()
            await asyncio.sleep(1)

        run_in_virtual_time(scene())
        gc.collect()

        assert len(invoked(session)) == 1
        (logged,) = caplog.records
        assert logged.getMessage() == "call call_1_1 of deaf was given up and failed later"
        assert logged.exc_info is not None
        assert isinstance(logged.exc_info[1], ValueError)


async def _call(session: Session, declared: object) -> Outcome:
    return (await run(declared, session=session)).outcome
