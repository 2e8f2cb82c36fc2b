"""No means no and yes means once: every decision, in every place, on every way a call goes on."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from tests.calls.places import DEADLINE_SECONDS, PLACES, Trace, Where, executor_at, history
from tests.helpers.patience import PATIENCE
from toolcrib.approval.approvers import Approver, Reply
from toolcrib.approval.decision import Actor, Answer, ApprovalRequest, Approve, Decision, Deny
from toolcrib.calls.executor import Executor
from toolcrib.errors import InvalidDecision
from toolcrib.ledger.events import ApprovalDecided, ToolInvoked
from toolcrib.session.session import Session
from toolcrib.session.state import ResumableState
from toolcrib.store import SqliteStore
from toolcrib.testing import FakeClock

ARGUMENTS = {"amount": 5, "to": "bob"}
EDITED = {"amount": 4, "to": "carol"}
JO = Actor("person", "jo")

Choice = Literal[
    "approve",
    "approve edited",
    "approve with an invalid edit",
    "deny",
    "answer",
    "expire",
    "unclear",
    "approver fails",
    "nobody",
    "withdraw",
    "approver disconnects",
]


@dataclass(frozen=True, slots=True)
class End:
    """How a call should end: `waiting`, `completed` or a failure's kind; what ran; who decided."""

    how: str
    ran_with: dict[str, Any] | None = None
    decided_by: Actor | None = None


ENDS: dict[Choice, End] = {
    "approve": End("completed", ARGUMENTS, JO),
    "approve edited": End("completed", EDITED, JO),
    "approve with an invalid edit": End("waiting"),
    "deny": End("denied", decided_by=JO),
    "answer": End("completed", decided_by=JO),
    "expire": End("expired", decided_by=Actor("timeout", "deadline")),
    "unclear": End("waiting"),
    "approver fails": End("waiting"),
    "nobody": End("waiting"),
    "withdraw": End("cancelled"),
    "approver disconnects": End("waiting"),
}
DECISIONS: dict[Choice, Decision] = {
    "approve": Approve(),
    "approve edited": Approve(EDITED),
    "approve with an invalid edit": Approve({"amount": "much"}),
    "deny": Deny("not today"),
    "answer": Answer("paid by hand"),
}
UNCLEAR = cast("list[Any]", [None, True, "approve", {}, {"kind": "approve"}, Approve])


class Person:
    """Makes a choice when asked."""

    def __init__(self, choice: Choice, clock: FakeClock) -> None:
        self._choice: Choice = choice
        self._clock = clock

    async def ask(self, request: ApprovalRequest) -> Reply | None:
        match self._choice:
            case "nobody":
                return None
            case "unclear":
                return cast("Any", "yes")
            case "approver fails":
                raise OSError("the chat is down")
            case "approver disconnects":
                connection = asyncio.get_running_loop().create_future()
                connection.cancel()
                await connection
            case "expire":
                self._clock.advance(DEADLINE_SECONDS)
                return Reply(Approve(), JO)
            case "withdraw":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            case choice:
                return Reply(DECISIONS[choice], JO)
        return None


@dataclass(slots=True)
class World:
    """One call, from its request to wherever it goes on."""

    where: Where
    choice: Choice
    trace: Trace
    folder: Path
    clock: FakeClock
    session: Session

    def executor(self, approver: Approver | None = None) -> Executor:
        return executor_at(self.where, self.session, self.trace, approver)

    async def call(self, approver: Approver | None = None) -> None:
        arguments = {} if self.where == "provider" else ARGUMENTS
        await self.executor(approver).call("pay", arguments, call_id="c1")

    async def decide(self) -> None:
        """Make the choice while the call waits."""
        match self.choice:
            case "expire":
                self.clock.advance(DEADLINE_SECONDS)
            case "withdraw":
                await self.executor().withdraw("c1")
            case "unclear":
                for answer in UNCLEAR:
                    with pytest.raises(InvalidDecision):
                        await self.session.approvals.decide("c1", answer, by="jo")
            case "approve with an invalid edit":
                with pytest.raises(InvalidDecision, match="/amount"):
                    await self.session.approvals.decide("c1", DECISIONS[self.choice], by="jo")
            case "nobody" | "approver fails" | "approver disconnects":
                pass
            case choice:
                await self.session.approvals.decide("c1", DECISIONS[choice], by="jo")

    async def go_on(self) -> None:
        """Take up whatever waits, and again: the second time must change nothing."""
        is_failing = self.choice in ("approver fails", "approver disconnects")
        executor = self.executor(Person(self.choice, self.clock) if is_failing else None)
        await executor.resume()
        await executor.resume()

    async def restore(self) -> None:
        """Carry the session over as a state, as another process would get it."""
        state = ResumableState.from_json(self.session.export_state().to_json())
        self.session = Session(clock=self.clock).with_state(state)

    async def move_to_file(self) -> None:
        store = SqliteStore(self.folder / "crib.sqlite3", clock=self.clock)
        self.session = await Session.open(store, "s", clock=self.clock)

    async def reopen(self) -> None:
        """Close the file and open it anew."""
        await self.close()
        await self.move_to_file()

    async def close(self) -> None:
        await self.session.close()
        self.session.store.close()

    @property
    def has_waiting(self) -> bool:
        return bool(self.session.open_calls())


async def answered_at_once(world: World) -> None:
    approver = None if world.choice == "nobody" else Person(world.choice, world.clock)
    task = asyncio.create_task(world.call(approver))
    try:
        await task
    except asyncio.CancelledError:
        assert world.choice == "withdraw"


async def resumed_later(world: World) -> None:
    await world.call()
    if world.has_waiting:
        await world.decide()
    await world.go_on()


async def called_again(world: World) -> None:
    await world.call()
    if world.has_waiting:
        await world.decide()
    if world.has_waiting:
        is_failing = world.choice in ("approver fails", "approver disconnects")
        await world.call(Person(world.choice, world.clock) if is_failing else None)


async def restored_then_decided(world: World) -> None:
    await world.call()
    await world.restore()
    if world.has_waiting:
        await world.decide()
    await world.go_on()


async def decided_then_restored(world: World) -> None:
    await world.call()
    if world.has_waiting:
        await world.decide()
    await world.restore()
    await world.go_on()


async def reopened_then_decided(world: World) -> None:
    await world.move_to_file()
    await world.call()
    await world.reopen()
    if world.has_waiting:
        await world.decide()
    await world.go_on()


async def decided_then_reopened(world: World) -> None:
    await world.move_to_file()
    await world.call()
    if world.has_waiting:
        await world.decide()
    await world.reopen()
    await world.go_on()


WAYS: list[Callable[[World], Awaitable[None]]] = [
    answered_at_once,
    resumed_later,
    called_again,
    restored_then_decided,
    decided_then_restored,
    reopened_then_decided,
    decided_then_reopened,
]


def check(world: World, end: End) -> None:
    """Nothing ran but what was allowed, once; the ledger says so and says who decided."""
    events = history(world.session)
    finished = [event for event in events if isinstance(event, ToolInvoked)]
    decided = [event.decided for event in events if isinstance(event, ApprovalDecided)]

    assert world.trace.runs() == ([] if end.ran_with is None else [end.ran_with])
    if end.how == "waiting":
        assert finished == decided == []
        assert [request.call_id for request in world.session.approvals.pending()] == ["c1"]
        return
    assert len(finished) == 1
    assert (finished[0].failure.kind if finished[0].failure else "completed") == end.how
    assert finished[0].decided_by == end.decided_by
    assert [each.actor for each in decided] == ([end.decided_by] if end.decided_by else [])
    assert world.session.approvals.pending() == []
    assert not world.has_waiting


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("choice", list(ENDS))
async def test_no_never_runs_and_yes_runs_once(
    choice: Choice, where: Where, way: Callable[[World], Awaitable[None]], tmp_path: Path
) -> None:
    """R42, T40, T41, T44, T49: the tool runs only after a clear yes, once, with exactly what the
    approver saw or wrote, wherever it runs and however the call goes on. What the provider runs
    is never asked about, because it cannot run here at all.
    """
    clock = FakeClock()
    trace = Trace(tmp_path / "runs")
    world = World(where, choice, trace, tmp_path, clock, Session(clock=clock))

    await way(world)

    check(world, End("unavailable") if where == "provider" else ENDS[choice])
    await world.close()


OTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from tests.calls.places import Trace, executor_at
from toolcrib.session.session import Session
from toolcrib.store import SqliteStore
from toolcrib.store.store import every

async def main(folder):
    store = SqliteStore(folder / "crib.sqlite3")
    for where in ("async", "sync", "sandbox", "client"):
        for info in list(every(lambda cursor: store.sessions(cursor=cursor))):
            session_id = info.session_id
            if session_id.endswith("." + where):
                async with await Session.open(store, session_id) as session:
                    executor = executor_at(where, session, Trace(folder / session_id))
                    await asyncio.gather(executor.resume(), executor.resume())

asyncio.run(main(Path(sys.argv[1])))
"""

ELSEWHERE: list[tuple[Choice, Where]] = [
    ("approve", "async"),
    ("approve", "client"),
    ("approve edited", "sandbox"),
    ("approve edited", "sync"),
    ("deny", "async"),
    ("deny", "sandbox"),
    ("answer", "sync"),
    ("nobody", "client"),
]


@pytest.mark.wire
async def test_another_process_goes_on_with_calls(tmp_path: Path) -> None:
    """T49: a decision is obeyed by whichever process takes the call up, and only by the first."""
    file = tmp_path / "crib.sqlite3"
    worlds: dict[str, World] = {}
    for choice, where in ELSEWHERE:
        name = f"{choice.replace(' ', '_')}.{where}"
        session = await Session.open(SqliteStore(file), name)
        worlds[name] = World(where, choice, Trace(tmp_path / name), tmp_path, FakeClock(), session)
        await worlds[name].call()
        await worlds[name].decide()
        await worlds[name].close()

    for _ in range(2):
        command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)]
        await asyncio.to_thread(
            subprocess.run, command, check=True, cwd=Path(__file__).parents[2], timeout=PATIENCE
        )

    for name, world in worlds.items():
        world.session = await Session.open(SqliteStore(file), name)
        check(world, ENDS[world.choice])
        await world.close()
