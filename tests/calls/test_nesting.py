"""Tools that call tools: through the same path, within the caller's bounds."""

import asyncio
from typing import Any

import pytest

from tests.calls.runs import failure, invoked
from toolcrib import Approve, Caller, Executor, Limits, Outcome, Session, ToolContext, tool
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.approval.policy import Policy
from toolcrib.approval.rule import Rule
from toolcrib.errors import UsageError
from toolcrib.testing import run_in_virtual_time


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(requires_approval=True)
async def erase() -> str:
    """Erase everything."""
    raise AssertionError("nobody allowed this")


def calling(
    name: str,
    arguments: dict[str, Any] | None = None,
    *,
    called: str = "outer",
    uses: tuple[str, ...] | None = None,
    limit: float | None = None,
) -> tuple[object, list[Outcome]]:
    """A tool that calls `name`, and what it got back."""
    got: list[Outcome] = []

    async def outer(ctx: ToolContext) -> str:
        """Call another tool."""
        got.append(await ctx.call_tool(name, arguments))
        return f"got {got[-1].text}"

    allowed = (name,) if uses is None else uses
    return tool(name=called, uses=allowed, timeout=limit)(outer), got


class TestCaller:
    @pytest.mark.parametrize("is_elsewhere", [False, True], ids=["same session", "another"])
    async def test_an_executor_within_a_call_acts_for_its_caller(self, is_elsewhere: bool) -> None:
        """A rule about somebody is not dodged by a tool that makes its calls without a name."""
        session = Session()
        policy = Policy((Rule("deny", "add", principal=("alice",)),), unmatched="allow")
        inner = Executor(Session() if is_elsewhere else session, [add], policy=policy)

        @tool
        async def outer() -> str:
            """Call a tool in its own way."""
            return (await inner.call("add", {"a": 1, "b": 2})).text

        outcomes = [
            await Executor(session, [outer]).call("outer", caller=Caller(name, "http"))
            for name in ("alice", "bob")
        ]

        assert "denies" in outcomes[0].text
        denied, _ = [each for each in invoked(inner.session) if each.name == "add"]
        assert denied.principal == "alice"


class TestRecord:
    async def test_both_calls_are_recorded_with_their_link(self) -> None:
        """R48: the inner call has a record of its own that names the outer one."""
        outer, got = calling("add", {"a": 1, "b": 2})
        session = Session()

        outcome = await Executor(session, [outer, add]).call("outer")

        assert got[0].value == 3
        inner_record, outer_record = invoked(session)
        assert (inner_record.name, inner_record.depth) == ("add", 1)
        assert inner_record.parent_call_id == outer_record.call_id == outcome.call_id
        assert (outer_record.depth, outer_record.parent_call_id) == (0, None)

    async def test_the_result_goes_to_the_caller_and_not_to_the_model(self) -> None:
        """R48: the model sees what the outer tool makes of it."""
        outer, _ = calling("add", {"a": 1, "b": 2})

        outcome = await Executor(Session(), [outer, add]).call("outer")

        assert outcome.text == "got 3"

    async def test_the_inner_call_has_the_same_caller(self) -> None:
        """R46: who asked for the outer call also asked for what follows from it."""
        outer, _ = calling("add", {"a": 1, "b": 2})
        session = Session()
        executor = Executor(session, [outer, add])

        await executor.call("outer", caller=Caller("ann", "http"))

        assert [(ended.principal, ended.transport) for ended in invoked(session)] == [
            ("ann", "http")
        ] * 2

    async def test_the_inner_call_knows_its_parent(self) -> None:
        """A handler can see that it is being called by another tool."""
        seen: list[str | None] = []

        @tool
        async def inner(ctx: ToolContext) -> str:
            """Look up."""
            seen.append(ctx.parent_call_id)
            return "ok"

        outer, _ = calling("inner")
        outcome = await Executor(Session(), [outer, inner]).call("outer")

        assert seen == [outcome.call_id]


class TestBounds:
    async def test_an_undeclared_tool_may_not_be_called(self) -> None:
        """R48: a tool can only call what it lists in `uses`."""
        outer, got = calling("add", {"a": 1, "b": 2}, uses=("other",))
        session = Session()

        await Executor(session, [outer, add]).call("outer")

        assert failure(got[0]) == "not_permitted"
        assert invoked(session)[0].failure == got[0].failure

    async def test_inner_arguments_are_validated(self) -> None:
        """R45, R48: the inner call is checked like any other."""
        outer, got = calling("add", {"a": "one", "b": 2})

        await Executor(Session(), [outer, add]).call("outer")

        assert failure(got[0]) == "invalid_arguments"

    async def test_inner_arguments_that_are_not_json_are_a_usage_error(self) -> None:
        """What no model could send is a mistake of the outer tool's author."""
        outer, _ = calling("add", {"a": object()})

        outcome = await Executor(Session(), [outer, add]).call("outer")

        assert isinstance(outcome.error, UsageError)

    async def test_an_unknown_tool_is_not_found(self) -> None:
        """R48: a tool that is listed and not there is an outcome, not a crash."""
        outer, got = calling("gone")

        await Executor(Session(), [outer]).call("outer")

        assert failure(got[0]) == "not_found"

    async def test_a_circle_is_refused(self) -> None:
        """R48: tools that call each other in a circle are stopped at the first repetition."""
        ping, ping_got = calling("pong", called="ping")
        pong, pong_got = calling("ping", called="pong")

        outcome = await Executor(Session(), [ping, pong]).call("ping")

        assert failure(pong_got[0]) == "recursion_limit"
        assert "ping -> pong -> ping" in pong_got[0].text
        assert ping_got[0].ok
        assert outcome.ok

    async def test_a_tool_that_calls_itself_is_refused(self) -> None:
        """R48: the smallest circle is a circle."""
        outer, got = calling("outer")

        await Executor(Session(), [outer]).call("outer")

        assert failure(got[0]) == "recursion_limit"

    @pytest.mark.parametrize(("max_depth", "is_ok"), [(3, True), (2, False)])
    async def test_depth_is_limited(self, max_depth: int, is_ok: bool) -> None:
        """R48: a chain of calls ends at the limit, also without a circle."""
        tools = [calling(f"t{n + 1}", called=f"t{n}") for n in range(3)]
        last, _ = calling("t0", called="t3", uses=())
        session = Session()
        limits = Limits(max_depth=max_depth)

        await Executor(session, [*[each for each, _ in tools], last], limits=limits).call("t0")

        third = tools[2][1][0]
        assert third.ok is is_ok
        assert failure(third) == (None if is_ok else "recursion_limit")

    async def test_a_denied_inner_call_is_an_outcome(self) -> None:
        """R48: denying B makes A receive a denied result; A goes on."""
        outer, got = calling("erase")
        session = Session()

        outcome = await Executor(session, [outer, erase]).call("outer")

        assert outcome.ok
        assert failure(got[0]) == "denied"
        assert session.approvals.pending() == []

    async def test_a_failed_inner_call_is_an_outcome(self) -> None:
        """R48: an exception of the inner tool does not fly through the outer one."""

        @tool
        async def broken() -> str:
            """Fail."""
            raise LookupError("no such book")

        outer, got = calling("broken")

        outcome = await Executor(Session(), [outer, broken]).call("outer")

        assert outcome.ok
        assert isinstance(got[0].error, LookupError)

    async def test_nested_calls_do_not_wait_for_a_general_slot(self) -> None:
        """A call that holds the only slot can still call tools; else it would wait for itself."""
        outer, got = calling("add", {"a": 1, "b": 2})
        limits = Limits(max_parallel=1)

        await Executor(Session(), [outer, add], limits=limits).call("outer")

        assert got[0].value == 3


class TestTime:
    def test_the_inner_call_ends_with_the_outer_ones_deadline(self) -> None:
        """R48: B's budget is at most A's remaining time, whatever B's own limit says."""
        left: list[float] = []

        @tool(timeout=60)
        async def inner(ctx: ToolContext) -> str:
            """Look at the clock."""
            assert ctx.deadline is not None
            left.append(ctx.deadline - asyncio.get_running_loop().time())
            return "ok"

        @tool(timeout=10, uses=("inner",))
        async def outer(ctx: ToolContext) -> str:
            """Use up some time first."""
            await asyncio.sleep(4)
            return (await ctx.call_tool("inner")).text

        outcome = run_in_virtual_time(_call([outer, inner], "outer"))

        assert outcome.ok
        assert left == [pytest.approx(6, abs=0.1)]

    def test_the_inner_calls_own_limit_may_be_shorter(self) -> None:
        """R48: B's own limit still binds, and A goes on after it."""

        @tool(timeout=2)
        async def inner() -> str:
            """Take too long."""
            await asyncio.sleep(60)
            return "ok"

        outer, got = calling("inner", limit=10)

        outcome = run_in_virtual_time(_call([outer, inner], "outer"))

        assert failure(got[0]) == "timeout"
        assert outcome.ok

    @pytest.mark.parametrize("limit", [None, 60.0])
    def test_cancelling_the_outer_call_cancels_the_inner_one(self, limit: float | None) -> None:
        """R48: cancel of A cancels B; both are recorded."""
        session = Session()
        seen: list[str] = []

        @tool(timeout=limit)
        async def inner() -> str:
            """Wait."""
            try:
                await asyncio.Event().wait()
            finally:
                seen.append("inner stopped")
            return "ok"

        async def scene() -> Outcome:
            outer, _ = calling("inner", limit=limit)
            executor = Executor(session, [outer, inner])
            call = asyncio.create_task(executor.call("outer", call_id="a"))
            await asyncio.sleep(1)
            assert executor.cancel("a")
            return await call

        outcome = run_in_virtual_time(scene())

        assert failure(outcome) == "cancelled"
        assert seen == ["inner stopped"]
        assert [ended.failure and ended.failure.kind for ended in invoked(session)] == [
            "cancelled",
            "cancelled",
        ]

    def test_cancelling_the_inner_call_is_an_outcome_for_the_outer_one(self) -> None:
        """Cancelling B alone leaves A running; A reads that B was cancelled."""

        @tool
        async def inner(ctx: ToolContext) -> str:
            """Wait."""
            ids.append(ctx.call_id)
            await asyncio.Event().wait()
            return "ok"

        ids: list[str] = []

        async def scene() -> tuple[Outcome, list[Outcome]]:
            outer, got = calling("inner")
            executor = Executor(Session(), [outer, inner])
            call = asyncio.create_task(executor.call("outer"))
            await asyncio.sleep(1)
            assert executor.cancel(ids[0])
            return await call, got

        outcome, got = run_in_virtual_time(scene())

        assert failure(got[0]) == "cancelled"
        assert outcome.ok


class TestAfterTheEnd:
    async def test_a_call_that_is_over_calls_nothing_more(self) -> None:
        """R48: a nested call is bound by its caller's time and cancellation; a caller that is
        over has neither, so what its handler still asks for is refused and recorded.
        """
        kept: list[ToolContext] = []

        @tool(uses=("add",))
        async def outer(ctx: ToolContext) -> str:
            """Keep the context."""
            kept.append(ctx)
            return "ok"

        session = Session()
        await Executor(session, [outer, add]).call("outer")

        late = await kept[0].call_tool("add", {"a": 1, "b": 2})

        assert failure(late) == "cancelled"
        assert "is over" in late.text
        assert invoked(session)[-1].failure == late.failure


async def _call(tools: list[Any], name: str) -> Outcome:
    return await Executor(Session(), tools).call(name)


class Inbox:
    """People who approve every request after a while."""

    def __init__(self, session: Session, seconds: float) -> None:
        self._session = session
        self._seconds = seconds

    def has_responders(self, caller: Caller) -> bool:
        return True

    def has_approvers(self, caller: Caller) -> bool:
        return True

    async def decided(self, request: ApprovalRequest) -> bool:
        await asyncio.sleep(self._seconds)
        await self._session.approvals.decide(request.approval_id, Approve(), by="ann")
        return True


@tool(requires_approval=True)
async def careful() -> str:
    """Do what somebody allows."""
    return "did it"


class TestWaiting:
    """F11: where people can decide meanwhile, a nested call waits and its caller's time stands."""

    def test_the_callers_limit_stands_still(self) -> None:
        """A tool of five seconds may call one that is approved after a minute."""
        outer, got = calling("careful", limit=5)

        async def scene() -> Outcome:
            session = Session()
            session.attendance = Inbox(session, 60)
            return await Executor(session, [outer, careful]).call("outer")

        outcome = run_in_virtual_time(scene())

        assert outcome.text == "got did it"
        assert got[0].ok

    def test_the_deadline_of_the_outermost_call_does_not_move(self) -> None:
        """Whoever set a deadline gets an end by then, and nobody can approve any more."""
        outer, _ = calling("careful")

        async def scene() -> tuple[Outcome, list[ApprovalRequest]]:
            session = Session()
            session.attendance = Inbox(session, 60)
            ends_at = asyncio.get_running_loop().time() + 10
            outcome = await Executor(session, [outer, careful]).call("outer", deadline=ends_at)
            return outcome, session.approvals.pending()

        outcome, pending = run_in_virtual_time(scene())

        assert failure(outcome) in ("timeout", None)
        assert "did it" not in outcome.text
        assert pending == []

    async def test_a_session_that_denies_what_is_unanswered_does_so_here_too(self) -> None:
        """`unanswered="deny"` leaves nothing waiting."""
        outer, got = calling("careful")
        session = Session(unanswered="deny")
        session.attendance = Inbox(session, 0)
        await Executor(session, [outer, careful]).call("outer")

        assert failure(got[0]) == "denied"
