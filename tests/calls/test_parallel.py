"""Several calls at once: in the order asked, within the limits, each on its own."""

import asyncio
import threading
from typing import Any

import pytest

from tests.calls.concurrency_gauge import Gauge, requests
from tests.calls.runs import failure, invoked, kinds
from tests.helpers.patience import PATIENCE
from toolcrib import (
    ApprovalRequired,
    Approve,
    CallbackApprover,
    Caller,
    CallRequest,
    Executor,
    Hooks,
    Limits,
    Session,
    ToolContext,
    tool,
)
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.errors import UsageError
from toolcrib.testing import run_in_virtual_time


class TestOrder:
    def test_outcomes_come_in_the_order_asked(self) -> None:
        """Whoever is done first, the first outcome is of the first request."""

        async def scene() -> list[Any]:
            executor = Executor(Session(), Gauge().tools)
            return [outcome.value for outcome in await executor.call_many(requests())]

        assert run_in_virtual_time(scene()) == list(range(6))

    def test_calls_run_at_the_same_time(self) -> None:
        """Without a limit, all calls run at once."""
        gauge = Gauge()

        run_in_virtual_time(Executor(Session(), gauge.tools).call_many(requests()))

        assert gauge.most == 6

    async def test_no_requests_give_no_outcomes(self) -> None:
        """Nothing asked, nothing answered."""
        assert await Executor(Session()).call_many([]) == []

    async def test_ids_and_callers_are_each_calls_own(self) -> None:
        """R46: a batch does not blur who asked for what."""
        session = Session()
        executor = Executor(session)

        outcomes = await executor.call_many(
            [CallRequest("a", call_id="c1", caller=Caller("ann")), CallRequest("b", call_id="c2")]
        )

        assert [outcome.call_id for outcome in outcomes] == ["c1", "c2"]
        assert {ended.call_id: ended.principal for ended in invoked(session)} == {
            "c1": "ann",
            "c2": None,
        }


class TestCaps:
    @pytest.mark.parametrize("cap", [1, 3])
    def test_the_executor_caps_what_runs_at_once(self, cap: int) -> None:
        """No more calls run at once than the limit says, and all get their turn."""
        gauge = Gauge()
        executor = Executor(Session(), gauge.tools, limits=Limits(max_parallel=cap))

        outcomes = run_in_virtual_time(executor.call_many(requests()))

        assert gauge.most == cap
        assert all(outcome.ok for outcome in outcomes)

    @pytest.mark.parametrize("cap", [1, 3])
    def test_a_batch_can_have_a_cap_of_its_own(self, cap: int) -> None:
        """`max_parallel` of one batch binds that batch."""
        gauge = Gauge()
        executor = Executor(Session(), gauge.tools)

        run_in_virtual_time(executor.call_many(requests(), max_parallel=cap))

        assert gauge.most == cap

    @pytest.mark.parametrize("cap", [0, -1])
    async def test_a_cap_that_lets_nothing_through_is_refused(self, cap: int) -> None:
        """No calls at once is a mistake; it must not mean no limit."""
        with pytest.raises(UsageError, match="max_parallel must be 1 or more"):
            await Executor(Session(), Gauge().tools).call_many(requests(), max_parallel=cap)

    async def test_threads_are_capped(self) -> None:
        """Sync handlers run in at most so many threads at once."""
        lock = threading.Lock()
        together = threading.Barrier(2)
        running, most = 0, 0

        @tool
        def work() -> str:
            """Work."""
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            together.wait(PATIENCE)
            with lock:
                running -= 1
            together.wait(PATIENCE)
            return "done"

        executor = Executor(Session(), [work], limits=Limits(max_threads=2))

        outcomes = await executor.call_many([CallRequest("work")] * 6)

        assert most == 2
        assert all(outcome.ok for outcome in outcomes)


class TestOnTheirOwn:
    def test_a_failure_of_one_does_not_lose_the_others(self) -> None:
        """Every request of a batch has its outcome, whatever became of the rest."""

        @tool
        async def work(number: int) -> int:
            """Fail for odd numbers."""
            await asyncio.sleep(number)
            if number % 2:
                raise LookupError(str(number))
            return number

        executor = Executor(Session(), [work])
        batch = [*requests(), CallRequest("gone"), CallRequest("work", {"number": "x"})]

        outcomes = run_in_virtual_time(executor.call_many(batch))

        assert [outcome.value for outcome in outcomes[:6:2]] == [0, 2, 4]
        assert [failure(outcome) for outcome in outcomes[1:6:2]] == ["tool_error"] * 3
        assert [failure(outcome) for outcome in outcomes[6:]] == ["not_found", "invalid_arguments"]

    async def test_a_call_that_waits_does_not_hold_up_the_others(self) -> None:
        """T43: in one batch, what needs nobody's yes runs while the rest waits."""

        @tool(requires_approval=True)
        async def erase() -> str:
            """Erase."""
            raise AssertionError("nobody allowed this")

        @tool
        async def look() -> str:
            """Look."""
            return "seen"

        executor = Executor(Session(), [erase, look], limits=Limits(max_parallel=1))

        waiting, seen = await executor.call_many([CallRequest("erase"), CallRequest("look")])

        assert waiting.status == "waiting"
        assert seen.value == "seen"

    async def test_an_approver_who_takes_long_holds_up_no_slot(self) -> None:
        """T43: a call that asks while it runs gives its slot back until it is answered."""
        looked = asyncio.Event()

        @tool(one_at_a_time=True)
        async def erase(ctx: ToolContext) -> str:
            """Ask on second thoughts."""
            if not ctx.tool_call_approved:
                raise ApprovalRequired({"why": "risky"})
            return "erased"

        @tool
        async def look() -> str:
            """Look."""
            looked.set()
            return "seen"

        async def answer(_: ApprovalRequest) -> Approve:
            await looked.wait()
            return Approve()

        executor = Executor(
            Session(),
            [erase, look],
            limits=Limits(max_parallel=1),
            approver=CallbackApprover(answer),
        )

        outcomes = await executor.call_many([CallRequest("erase"), CallRequest("look")])

        assert [outcome.value for outcome in outcomes] == ["erased", "seen"]

    @pytest.mark.parametrize(
        "bad",
        [
            CallRequest("work", {"number": object()}),
            CallRequest("work", {"number": 2}, call_id=""),
            CallRequest("work", {"number": 2}, call_id="c0"),
        ],
        ids=["not JSON", "no id", "an id twice"],
    )
    async def test_a_request_that_cannot_be_made_is_refused_before_anything_runs(
        self, bad: CallRequest
    ) -> None:
        """A mistake in one request must not tear down calls that have begun to take effect."""
        session = Session()
        executor = Executor(session, Gauge().tools)

        with pytest.raises(UsageError):
            await executor.call_many([CallRequest("work", {"number": 9}, call_id="c0"), bad])

        assert kinds(session) == ["session.opened"]

    async def test_an_id_belongs_to_one_call_at_a_time(self) -> None:
        """A second call under the id of one on its way is refused, also before that one starts:
        their records could not be told apart.
        """
        go = asyncio.Event()

        async def hold(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
            await go.wait()
            return arguments

        session = Session()
        executor = Executor(session, Gauge().tools, hooks=Hooks(pre={"work": hold}))
        first = asyncio.create_task(executor.call("work", {"number": 10}, call_id="c1"))
        await asyncio.sleep(0)

        with pytest.raises(UsageError, match="'c1'"):
            await executor.call("work", {"number": 10}, call_id="c1")

        go.set()
        assert (await first).value == 10
        assert len(invoked(session)) == 1
