"""What is not clear when a call goes on does not run."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.calls.payments import Desk, kind_of
from tests.calls.places import Trace, executor_at, history, pay_tool
from toolcrib.approval.approvers import Reply
from toolcrib.approval.decision import ApprovalRequest, Approve
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.executor import Executor
from toolcrib.ledger.events import ApprovalDecided, CallStarted
from toolcrib.session.session import Session
from toolcrib.session.state import ResumableState
from toolcrib.store import SqliteStore
from toolcrib.testing import FakeClock
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import tool

NO_PAYMENTS = Policy((Rule("deny", "pay", id="no payments"),))


async def went_on(desk: Desk, state: ResumableState) -> list[str]:
    """How the calls of a state end in a new session; nothing is obeyed and nothing runs."""
    session = Session().with_state(state)
    other = Desk(session=session, ran=desk.ran, requires_approval=True)
    outcomes = await other.executor.resume()
    assert desk.ran == other.events(ApprovalDecided) == []
    return [kind_of(each) for each in outcomes]


@pytest.mark.parametrize("by", ["a person", "a grant"])
async def test_a_deny_rule_of_now_beats_a_yes_of_then(by: str) -> None:
    """Whoever went on with a stricter policy means it for the calls that wait, too."""
    desk = Desk(requires_approval=True)
    await desk.call(1, "c1")
    await desk.call(2, "c2")
    grant = NewGrant("session") if by == "a grant" else None
    await desk.session.approvals.decide("c1", Approve(), by="jo", grant=grant)
    strict = Desk(NO_PAYMENTS, session=desk.session, ran=desk.ran, requires_approval=True)

    outcomes = await strict.executor.resume()

    assert [kind_of(each) for each in outcomes] == ["not_permitted", "not_permitted"]
    assert desk.ran == []


async def test_a_call_whose_request_is_gone_does_not_run() -> None:
    """A state that lost its requests must not read as approved."""
    desk = Desk(requires_approval=True)
    await desk.call(1, "c1")
    state = replace(desk.session.export_state(), approvals=())

    assert await went_on(desk, state) == ["unavailable"]


async def test_a_yes_that_was_used_is_not_used_again() -> None:
    """An open call beside a used request is damage, not permission."""
    desk = Desk(requires_approval=True)
    await desk.call(1, "c1")
    before = desk.session.export_state()
    await desk.decide("c1", Approve())
    desk.ran.clear()
    state = replace(before, approvals=desk.session.export_state().approvals)

    assert await went_on(desk, state) == ["unavailable"]


@pytest.mark.parametrize("is_obeyed", [True, False])
async def test_a_decision_taken_up_later_is_still_for_one_call(is_obeyed: bool) -> None:
    """Arguments that were changed after the decision do not run, whether the decision lies in the
    inbox or beside the call.
    """
    desk = Desk(requires_approval=True)
    await desk.call(1, "c1")
    await desk.session.approvals.decide("c1", Approve(), by="jo")
    state = desk.session.export_state()
    (call,), (filed,) = state.open_calls, state.approvals
    decided = filed.decided if is_obeyed else None
    forged = replace(call, arguments=b'{"amount":1000}', decided=decided)

    assert await went_on(desk, replace(state, open_calls=(forged,))) == ["unavailable"]


async def test_a_call_in_doubt_is_not_run_by_the_yes_to_its_first_run() -> None:
    """An open request of before the crash, or a grant for it, does not answer the new question."""
    desk = Desk(requires_approval=True)
    await desk.call(1, "c1")
    await desk.call(2, "c2")
    await desk.session.approvals.decide("c1", Approve(), by="jo", grant=NewGrant("session"))
    state = desk.session.export_state()
    doubted = tuple(replace(call, state="in_doubt", attempt=1) for call in state.open_calls)

    assert await went_on(desk, replace(state, open_calls=doubted)) == ["waiting", "waiting"]


async def test_a_nested_call_does_not_go_on_without_its_caller() -> None:
    """R48: its result would reach nobody, and its caller may ask for it again."""
    ran: list[object] = []
    states: list[ResumableState] = []

    class Leaves:
        async def ask(self, request: ApprovalRequest) -> Reply | None:
            # What a crash leaves behind: nothing exports a session while a call runs.
            states.append(
                ResumableState(
                    session_id=session.session_id,
                    records=tuple(session.records()),
                    open_calls=tuple(session.open_calls()),
                    approvals=tuple(session.store.approvals().items),
                )
            )
            return None

    @tool(uses=("pay",))
    async def shop(ctx: ToolContext) -> str:
        """Shop."""
        return (await ctx.call_tool("pay", {"amount": 1})).text

    session = Session()
    desk = Desk(session=session, requires_approval=True)
    await Executor(session, [shop, desk.pay], approver=Leaves()).call("shop")
    restored = Session().with_state(states[0])
    other = Desk(session=restored, ran=ran, requires_approval=True)
    (asked,) = restored.approvals.pending()

    outcomes = await other.decide(asked.approval_id, Approve())

    assert [kind_of(each) for each in outcomes] == ["cancelled"]
    assert ran == desk.ran == []


async def test_a_client_that_is_not_connected_runs_nothing(tmp_path: Path) -> None:
    """The call fails as a new one would, before anything is said to have started."""
    session = Session(clock=FakeClock())
    trace = Trace(tmp_path / "runs")
    await executor_at("client", session, trace).call("pay", {"amount": 1}, call_id="c1")
    await session.approvals.decide("c1", Approve(), by="jo")

    (outcome,) = await Executor(session, [pay_tool("client", trace)]).resume()

    assert kind_of(outcome) == "unavailable"
    assert not any(isinstance(event, CallStarted) for event in history(session))


async def test_an_edit_whose_file_is_lost_does_not_run_without_it(sqlite_path: Path) -> None:
    """A copy of the database without the files beside it has a yes to arguments it has not."""
    ran: list[bool] = []

    @tool(requires_approval=True)
    async def clean(dry_run: bool = False) -> str:
        """Clean."""
        ran.append(dry_run)
        return "cleaned"

    with SqliteStore(sqlite_path) as store:
        async with await Session.open(store, "s") as session:
            await Executor(session, [clean]).call("clean", call_id="c1")
            await session.approvals.decide("c1", Approve({"dry_run": True}), by="jo")
    shutil.rmtree(f"{sqlite_path}-open")
    with SqliteStore(sqlite_path) as store:
        async with await Session.open(store, "s") as session:
            (outcome,) = await Executor(session, [clean]).resume()

    assert kind_of(outcome) == "unavailable"
    assert ran == []
