"""Going on: what waited runs once, as it was frozen, and nothing is lost on the way."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any

import pytest

from tests.calls.payments import JO, Desk, kind_of
from tests.helpers.patience import PATIENCE
from toolcrib.approval.approvers import Reply
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import ApprovalRequest, Approve, Deny
from toolcrib.calls.call import calls_of
from toolcrib.calls.executor import Executor
from toolcrib.calls.hooks import Hooks
from toolcrib.calls.outcome import CallRequest
from toolcrib.errors import InvalidDecision, LeaseLost, UsageError
from toolcrib.ledger.events import ApprovalDecided, CallStarted, ToolInvoked, ToolUnavailable
from toolcrib.session.session import Session
from toolcrib.store import SqliteStore
from toolcrib.store.store import OpenCall
from toolcrib.testing import FakeClock
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import tool
from toolcrib.tools.secrets import Secret


@pytest.fixture(params=["memory", "sqlite"])
async def desk(request: pytest.FixtureRequest, sqlite_path: Path) -> AsyncGenerator[Desk]:
    """A desk whose payments wait, in every store."""
    if request.param == "memory":
        yield Desk(requires_approval=True)
        return
    with SqliteStore(sqlite_path) as store:
        async with await Session.open(store, "s") as session:
            yield Desk(session=session, requires_approval=True)


async def test_siblings_that_need_no_approval_have_run(desk: Desk) -> None:
    """T43: a call that waits holds up no other, and outcomes come in the order asked."""
    outcomes = await desk.executor.call_many(
        [CallRequest("pay", {"amount": 1}), CallRequest("look"), CallRequest("nonsense")]
    )

    assert [kind_of(each) for each in outcomes] == ["waiting", "completed", "not_found"]
    assert desk.ran == ["looked"]


async def test_some_answers_let_some_calls_go_on(desk: Desk) -> None:
    """Each call goes on by its own decision; the rest still waits, in its order."""
    for number in (1, 2, 3):
        await desk.call(number, f"c{number}")
    await desk.session.approvals.decide("c2", Approve(), by="jo")

    first = await desk.executor.resume()
    await desk.session.approvals.decide("c1", Deny(), by="jo")
    second = await desk.executor.resume(["c1"])

    assert [kind_of(each) for each in first] == ["waiting", "completed", "waiting"]
    assert [(each.call_id, kind_of(each)) for each in second] == [("c1", "denied")]
    assert [each.call_id for each in desk.session.approvals.pending()] == ["c3"]
    assert desk.ran == [{"amount": 2, "to": "ada"}]


async def test_racing_resumptions_run_a_call_once(desk: Desk) -> None:
    """T44: several tasks and executors of a session take a call up once between them."""
    await desk.call(1, "c1")
    await desk.call(2, "c2")
    for call_id in ("c1", "c2"):
        await desk.session.approvals.decide(call_id, Approve(), by="jo")
    twin = Desk(session=desk.session, ran=desk.ran, requires_approval=True)

    replies = await asyncio.gather(
        *(each.executor.resume() for each in (desk, twin, desk, twin)),
        desk.call(1, "c1"),
        return_exceptions=True,
    )

    assert sorted(str(each) for each in desk.ran) == [
        "{'amount': 1, 'to': 'ada'}",
        "{'amount': 2, 'to': 'ada'}",
    ]
    assert len(desk.events(ToolInvoked)) == 2
    errors = [each for each in replies if isinstance(each, BaseException)]
    assert all(isinstance(each, UsageError) for each in errors)


class SlowReads(SqliteStore):
    """A store on a disk that, once, gives its answer late."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_slow = False
        self.has_read = threading.Event()
        self.may_answer = threading.Event()

    def open_calls(self, session_id: str) -> list[OpenCall]:
        found = super().open_calls(session_id)
        if self.is_slow:
            self.is_slow = False
            self.has_read.set()
            self.may_answer.wait(PATIENCE)
        return found


async def test_an_old_answer_of_the_store_runs_nothing_again(sqlite_path: Path) -> None:
    """What was read before somebody else finished the call does not count."""
    with SlowReads(sqlite_path) as store:
        async with await Session.open(store, "s") as session:
            desk = Desk(session=session, requires_approval=True)
            await desk.call(1, "c1")
            await session.approvals.decide("c1", Approve(), by="jo")
            store.is_slow = True
            slow = asyncio.create_task(desk.executor.resume())
            await asyncio.to_thread(store.has_read.wait, 10)

            quick = await desk.executor.resume()
            store.may_answer.set()

            assert [kind_of(each) for each in quick] == ["completed"]
            assert await slow == []
            assert calls_of(session).claimed == set()
            assert len(desk.ran) == 1
            assert len(desk.events(ToolInvoked)) == len(desk.events(CallStarted)) == 1


async def test_a_process_that_lost_its_session_runs_nothing(sqlite_path: Path) -> None:
    """A process that slept while another took over gets its yes too late: the call ran there."""
    clock = FakeClock()
    ran: list[object] = []
    asked, answer = asyncio.Event(), asyncio.Event()

    class Slow:
        async def ask(self, request: ApprovalRequest) -> Reply | None:
            asked.set()
            await answer.wait()
            return Reply(Approve(), JO)

    with (
        SqliteStore(sqlite_path, clock=clock) as first,
        SqliteStore(sqlite_path, clock=clock) as second,
    ):
        session = await Session.open(first, "s", clock=clock)
        sleeper = Desk(session=session, approver=Slow(), ran=ran, requires_approval=True)
        task = asyncio.create_task(sleeper.call(1, "c1"))
        await asked.wait()
        clock.advance(3600)
        async with await Session.open(second, "s", clock=clock) as taken:
            desk = Desk(session=taken, ran=ran, requires_approval=True)
            assert [kind_of(each) for each in await desk.decide("c1", Approve())] == ["completed"]
            answer.set()

            assert (await task).status == "waiting"
            with pytest.raises(LeaseLost):
                await sleeper.executor.resume()
            assert len(ran) == len(desk.events(ToolInvoked)) == 1


class TestTools:
    @pytest.mark.parametrize("change", ["gone", "version", "arguments", "source"])
    async def test_a_tool_that_is_not_the_same_does_not_run(self, desk: Desk, change: str) -> None:
        """R50: a yes for one tool is not used for another; an event and the outcome say so."""
        asked = await desk.call(1, "c1")
        assert asked.approval is not None
        await desk.session.approvals.decide("c1", Approve(), by="jo")
        ran: list[object] = []
        match change:
            case "gone":
                other = Executor(desk.session)
            case "version":
                other = Desk(session=desk.session, ran=ran, version="1.0.0").executor
            case "source":
                other = Desk(session=desk.session, ran=ran, source="mcp:shop").executor
            case _:
                other = Executor(desk.session, [changed_pay(ran)])

        (outcome,) = await other.resume()

        assert kind_of(outcome) == "unavailable"
        assert desk.ran == ran == []
        (event,) = desk.events(ToolUnavailable)
        assert (event.call_id, event.tool) == ("c1", desk.executor.tools["pay"].ref)
        (finished,) = desk.events(ToolInvoked)
        assert (finished.tool, finished.arguments_digest) == (event.tool, asked.approval.digest)
        assert await desk.executor.resume() == desk.session.open_calls() == []

    async def test_withdrawing_a_call_of_a_changed_tool_shows_no_secret(self) -> None:
        """A tool's next version need not know what was secret before."""
        session = Session()

        @tool(requires_approval=True)
        async def login(token: Annotated[str, Secret()]) -> str:
            """Log in."""
            return token

        await Executor(session, [login]).call("login", {"token": "hunter2-hunter2"}, call_id="c1")

        @tool(name="login")
        async def login_by_hand(token: str) -> str:
            """Log in."""
            return token

        outcome = await Executor(session, [login_by_hand]).withdraw("c1")

        assert kind_of(outcome) == "cancelled"
        assert not any(b"hunter2" in (each.payload or b"") for each in session.records())


def changed_pay(ran: list[object]) -> Any:
    @tool(requires_approval=True)
    async def pay(euros: int) -> str:
        """Pay somebody."""
        ran.append(euros)
        return "paid"

    return pay


class TestHooks:
    async def test_pre_hooks_run_once_and_post_hooks_after_the_tool(self) -> None:
        """T38, T40: pre hooks decide what is asked about and do not run again; post hooks see the
        result of what was approved.
        """
        seen: list[object] = []

        async def pre(_: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            seen.append(("pre", name))
            return {**arguments, "to": "bob"}

        async def post(context: ToolContext, value: Any) -> Any:
            seen.append(("post", context.tool_call_approved, value))
            return f"{value}!"

        hooks = Hooks(global_pre=pre, post={"pay": post})
        desk = Desk(requires_approval=True, hooks=hooks)
        waiting = await desk.call(1, "c1")
        assert seen == [("pre", "pay")]
        assert waiting.approval is not None
        assert waiting.approval.arguments == {"amount": 1, "to": "bob"}

        (outcome,) = await desk.decide("c1", Approve())

        assert seen == [("pre", "pay"), ("post", True, "paid 1")]
        assert outcome.value == "paid 1!"
        assert desk.ran == [{"amount": 1, "to": "bob"}]

    async def test_post_hooks_do_not_run_after_a_no(self) -> None:
        """T38: there is no result to look at."""
        seen: list[object] = []

        async def post(_: Any, value: Any) -> Any:
            seen.append(value)

        desk = Desk(requires_approval=True, hooks=Hooks(post={"pay": post}))
        await desk.call(1, "c1")

        assert [kind_of(each) for each in await desk.decide("c1", Deny())] == ["denied"]
        assert seen == []


class TestClaims:
    async def test_a_call_that_is_being_asked_about_is_not_taken_up(self) -> None:
        """Nobody is asked twice, and the call cannot be withdrawn from under its approver."""
        asked: asyncio.Queue[str] = asyncio.Queue()
        answer = asyncio.Event()

        class Slow:
            async def ask(self, request: ApprovalRequest) -> Reply | None:
                asked.put_nowait(request.call_id)
                await answer.wait()
                return Reply(Approve(), JO)

        desk = Desk(approver=Slow(), requires_approval=True)
        task = asyncio.create_task(desk.call(1))
        call_id = await asked.get()

        assert await desk.executor.resume() == []
        for again in (desk.call(1, call_id), desk.executor.withdraw(call_id)):
            with pytest.raises(UsageError, match="being worked on"):
                await again
        answer.set()
        assert (await task).ok
        assert len(desk.ran) == 1

    async def test_a_call_is_taken_up_under_its_own_name(self, desk: Desk) -> None:
        """An id of a waiting call with another tool is a mistake; the call still waits."""
        await desk.call(1, "c1")

        with pytest.raises(UsageError, match="is of 'pay', not of 'look'"):
            await desk.executor.call("look", call_id="c1")

        assert [kind_of(each) for each in await desk.decide("c1", Approve())] == ["completed"]

    async def test_cancelling_the_caller_ends_its_request(self, desk: Desk) -> None:
        """R42: a call that is torn down while it is asked about cannot be approved any more."""
        asked = asyncio.Event()

        class Never:
            async def ask(self, request: ApprovalRequest) -> Reply | None:
                asked.set()
                await asyncio.Event().wait()
                return None

        gated = Desk(session=desk.session, approver=Never(), requires_approval=True)
        task = asyncio.create_task(gated.call(1, "c1"))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await desk.executor.resume() == []
        with pytest.raises(InvalidDecision):
            await desk.session.approvals.decide("c1", Approve(), by="jo")
        assert [each.failure and each.failure.kind for each in desk.events(ToolInvoked)] == [
            "cancelled"
        ]
        assert desk.events(ApprovalDecided) == gated.ran == []


async def test_a_call_goes_on_as_it_was_made(sqlite_path: Path) -> None:
    """R46: caller, turn, arguments and waiting time are those of the first request."""
    clock = FakeClock()
    with SqliteStore(sqlite_path, clock=clock) as store:
        async with await Session.open(store, "s", clock=clock) as session:
            first = Desk(session=session, requires_approval=True)
            with first.executor.turn():
                await first.executor.call(
                    "pay", b'{"to":"bob",  "amount":1}', call_id="c1", caller=Caller("ada", "http")
                )
        clock.advance(30)
        async with await Session.open(store, "s", clock=clock) as session:
            desk = Desk(session=session, requires_approval=True)
            (outcome,) = await desk.decide("c1", Approve())

            (event,) = desk.events(ToolInvoked)
            assert outcome.ok
            assert (event.principal, event.transport, event.turn) == ("ada", "http", 1)
            assert event.waited_seconds == 30
            assert event.arguments_digest == desk.events(ApprovalDecided)[0].decided.digest
            assert desk.ran == [{"amount": 1, "to": "bob"}]
