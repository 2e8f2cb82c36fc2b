"""R46: every attempt leaves one record with all its facts, and nothing changes it afterwards."""

import asyncio
from typing import Any

import pytest

from tests.calls.runs import failure, found, invoked, run
from toolcrib import (
    Actor,
    Approve,
    CallbackApprover,
    Caller,
    Deny,
    Executor,
    Hooks,
    Limits,
    ModelRetry,
    Outcome,
    Policy,
    Refuse,
    Rule,
    Session,
    ToolContext,
    ToolInvoked,
    tool,
)
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.calls.call import calls_of
from toolcrib.calls.execute import cancel
from toolcrib.ledger.events import CallStarted
from toolcrib.testing import FakeClock, Recorder, run_in_virtual_time


@tool(version="1.2.0")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(timeout=5)
async def slow() -> str:
    """Take too long."""
    await asyncio.sleep(60)
    return "done"


@tool
async def broken() -> str:
    """Fail."""
    raise LookupError("no such book")


@tool
async def picky() -> str:
    """Ask for another try."""
    raise ModelRetry("Try again.")


@tool
async def odd() -> Any:
    """Give what cannot be sent."""
    return object()


@tool(requires_approval=True)
async def erase() -> str:
    """Erase."""
    raise AssertionError("nobody allowed this")


@tool
async def hidden() -> str:
    """Be refused by a hook."""
    raise AssertionError("nobody allowed this")


@tool
async def banned() -> str:
    """Be denied by the policy."""
    raise AssertionError("nobody allowed this")


@tool
async def stop(ctx: ToolContext) -> str:
    """Be cancelled, alone."""
    assert ctx.session is not None
    cancel(calls_of(ctx.session).running[ctx.call_id])
    await asyncio.sleep(60)
    return "done"


POLICY = Policy((Rule("deny", "banned"), Rule("ask", "erase"), Rule("allow", "*")))


async def no(_: ApprovalRequest) -> Deny:
    return Deny("Not today.")


async def refuse(_: Any, __: dict[str, Any]) -> Refuse:
    return Refuse("Not here.")


ATTEMPTS: dict[str, tuple[Any, Any, str | None]] = {
    "completed": (add, {"a": 1, "b": 2}, None),
    "not found": ("gone", None, "not_found"),
    "invalid": (add, {"a": "1"}, "invalid_arguments"),
    "too large": (add, {"a": 10**200}, "invalid_arguments"),
    "refused by hook": (hidden, None, "not_permitted"),
    "denied by policy": (banned, None, "not_permitted"),
    "denied by a person": (erase, None, "denied"),
    "timeout": (slow, None, "timeout"),
    "error": (broken, None, "tool_error"),
    "retry": (picky, None, "tool_error"),
    "invalid result": (odd, None, "invalid_result"),
    "cancelled": (stop, None, "cancelled"),
}


@pytest.mark.parametrize("is_heard", [False, True], ids=["unheard", "heard"])
@pytest.mark.parametrize(("declared", "arguments", "kind"), ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_every_attempt_leaves_one_record(
    declared: Any, arguments: Any, kind: str | None, is_heard: bool
) -> None:
    """R46: however a call ends, there is one `tool.invoked` with its facts; it is the same live
    and in the ledger, and the chain holds.
    """
    session = Session(clock=FakeClock())
    heard = Recorder(session.bus) if is_heard else None
    executor = Executor(
        session,
        [add, slow, broken, picky, odd, erase, hidden, banned, stop],
        hooks=Hooks(pre={"hidden": refuse}),
        policy=POLICY,
        approver=CallbackApprover(no),
        limits=Limits(max_arguments_bytes=100),
    )
    name = declared if isinstance(declared, str) else declared.tool.name

    async def scene() -> Outcome:
        with executor.turn():
            return await executor.call(name, arguments, caller=Caller("ann", "http"))

    outcome = run_in_virtual_time(scene())

    assert failure(outcome) == kind
    (ended,) = invoked(session)
    assert (ended.call_id, ended.name, ended.turn) == (outcome.call_id, name, 1)
    assert (ended.principal, ended.transport) == ("ann", "http")
    assert ended.message == outcome.text
    assert ended.success is outcome.ok
    assert ended.failure == outcome.failure
    assert ended.arguments_digest
    assert (ended.tool is None) is (name == "gone")
    assert heard is None or heard.of(ToolInvoked) == [ended]
    session.verify()


class TestFacts:
    async def test_who_decided_is_on_record(self) -> None:
        """R46: the decision and by whom."""
        session = Session()
        policy = Policy((Rule("allow", "add", id="sums are fine"),))

        await Executor(session, [add], policy=policy).call("add", {"a": 1, "b": 2})

        assert invoked(session)[0].decided_by == Actor("rule", "sums are fine")

    async def test_how_long_it_took_is_on_record(self) -> None:
        """R46: the duration, by the session's clock, from start to end of the handler."""
        clock = FakeClock()

        @tool
        async def work() -> str:
            """Work."""
            clock.advance(3)
            return "done"

        ended = await run(work, session=Session(clock=clock))

        assert ended.record.duration_seconds == pytest.approx(3)
        assert ended.record.at == clock()

    async def test_a_call_that_did_not_start_took_no_time(self) -> None:
        """R46: what never ran has no duration and no start."""
        ended = await run(add, {"a": "1"})

        assert ended.record.duration_seconds == 0
        assert found(ended.session, CallStarted) == []

    async def test_a_clock_that_goes_back_gives_no_negative_time(self) -> None:
        """A clock that is set back does not make records absurd."""
        clock = FakeClock()

        @tool
        async def work() -> str:
            """Work."""
            clock.advance(-60)
            return "done"

        assert (await run(work, session=Session(clock=clock))).record.duration_seconds == 0

    async def test_how_long_it_waited_is_on_record(self) -> None:
        """R46: the time that an approver took is told apart from the tool's own."""
        clock = FakeClock()

        async def think(_: ApprovalRequest) -> Approve:
            clock.advance(40)
            return Approve()

        @tool(requires_approval=True)
        async def work() -> str:
            """Work."""
            clock.advance(2)
            return "done"

        ended = await run(work, session=Session(clock=clock), approver=CallbackApprover(think))

        assert ended.record.waited_seconds == pytest.approx(40)
        assert ended.record.duration_seconds == pytest.approx(2)

    async def test_a_clock_at_zero_is_a_clock(self) -> None:
        """A cancelled call is recorded once, whatever the time is."""
        session = Session(clock=FakeClock(0.0))
        task = asyncio.create_task(Executor(session, [slow]).call("slow"))
        await asyncio.sleep(0)

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert len(invoked(session)) == 1
