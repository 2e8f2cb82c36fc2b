"""A call in doubt whose process is not known to be dead: what is said, and when it may run."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.calls.places import history
from tests.store.facts import FakeClock
from toolcrib.approval.decision import Actor, Approve, Decided, Deny
from toolcrib.calls.executor import Executor
from toolcrib.calls.outcome import Outcome
from toolcrib.calls.records import UNLIMITED_SECONDS
from toolcrib.errors import InvalidDecision, LeaseLost
from toolcrib.ledger.events import CallInDoubt, CallStarted
from toolcrib.session.session import Session
from toolcrib.store import Lease, SqliteStore
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import tool

TIMEOUT = 30.0


class OtherMachine(SqliteStore):
    """A store in which every earlier writer was on another machine."""

    is_cut_off = False
    is_same_machine = False

    def is_sure(self, lease: Lease) -> bool:
        return not self.is_cut_off and super().is_sure(lease)

    def is_gone(self, holder: str) -> bool:
        return self.is_same_machine


class Bank:
    """A world that notes which transfer was asked for under which key."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    @property
    def tools(self) -> list[Any]:
        @tool(timeout=TIMEOUT)
        async def pay(ctx: ToolContext, amount: int) -> str:
            """Pay."""
            self.keys.append(ctx.idempotency_key)
            return f"paid {amount}"

        @tool
        async def pay_without_limit(ctx: ToolContext, amount: int) -> str:
            """Pay."""
            self.keys.append(ctx.idempotency_key)
            return f"paid {amount}"

        @tool(timeout=TIMEOUT, is_idempotent=True)
        async def put(ctx: ToolContext, amount: int) -> str:
            """Put."""
            self.keys.append(ctx.idempotency_key)
            return f"put {amount}"

        return [pay, pay_without_limit, put]


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[OtherMachine]:
    with OtherMachine(tmp_path / "s.db") as store:
        yield store


async def left_in_doubt(store: OtherMachine, bank: Bank, clock: FakeClock, name: str) -> None:
    """Another machine starts the call "c1" of a tool and is heard of no more."""
    session = await Session.open(store, "s", clock=clock)
    store.is_cut_off = True
    with pytest.raises(LeaseLost):
        await Executor(session, bank.tools).call(name, {"amount": 7}, call_id="c1")
    await session.close()
    store.is_cut_off = False


async def taken_up(
    store: OtherMachine, bank: Bank, clock: FakeClock
) -> tuple[Session, Executor, Outcome]:
    """The call, as the next writer of the session finds it."""
    session = await Session.open(store, "s", clock=clock)
    executor = Executor(session, bank.tools)
    (outcome,) = await executor.resume(["c1"])
    return session, executor, outcome


@pytest.mark.parametrize(
    ("name", "seconds"), [("pay", TIMEOUT), ("pay_without_limit", UNLIMITED_SECONDS)]
)
async def test_the_request_says_what_is_known(
    store: OtherMachine, bank: Bank, clock: FakeClock, name: str, seconds: float
) -> None:
    """The other process is not known to be dead; the request says so, and from when on the call may
    run again: when the time limit of the tool is over, or a default where it has none.
    """
    started_at = clock.now
    await left_in_doubt(store, bank, clock, name)
    session, _, outcome = await taken_up(store, bank, clock)

    assert outcome.approval is not None
    assert "not known to be dead" in outcome.approval.reason
    assert outcome.approval.approvable_at == started_at + seconds
    (doubt,) = [event for event in history(session) if isinstance(event, CallInDoubt)]
    assert doubt.may_run_until == started_at + seconds
    await session.close()


async def test_a_re_run_cannot_be_approved_before_the_time_limit(
    store: OtherMachine, bank: Bank, clock: FakeClock
) -> None:
    """An early yes is refused with the time from which it counts; afterwards it runs the call."""
    await left_in_doubt(store, bank, clock, "pay")
    session, executor, _ = await taken_up(store, bank, clock)

    clock.now += TIMEOUT - 1
    with pytest.raises(InvalidDecision, match=r"can be approved from .* UTC on"):
        await session.approvals.decide("c1", Approve(), by="ada")
    assert [outcome.status for outcome in await executor.resume(["c1"])] == ["waiting"]
    assert bank.keys == []

    clock.now += 1
    await session.approvals.decide("c1", Approve(), by="ada")
    assert [outcome.text for outcome in await executor.resume(["c1"])] == ["paid 7"]
    await session.close()


async def test_a_denial_counts_at_once(store: OtherMachine, bank: Bank, clock: FakeClock) -> None:
    """Not to run a call again needs no wait."""
    await left_in_doubt(store, bank, clock, "pay")
    session, executor, _ = await taken_up(store, bank, clock)
    await session.approvals.decide("c1", Deny("it is there"), by="ada")

    (outcome,) = await executor.resume(["c1"])
    assert outcome.failure is not None
    assert outcome.failure.kind == "in_doubt"
    assert bank.keys == []
    await session.close()


async def test_an_early_yes_that_was_filed_unchecked_runs_nothing(
    store: OtherMachine, bank: Bank, clock: FakeClock
) -> None:
    """Whoever writes a decision past the checks does not get the call run, either."""
    await left_in_doubt(store, bank, clock, "pay")
    session, executor, outcome = await taken_up(store, bank, clock)
    request = outcome.approval
    assert request is not None
    early = Decided(
        request.approval_id, request.digest, Approve(), Actor("person", "eve"), clock.now
    )
    assert store.decide(early)

    clock.now += TIMEOUT + 1
    (outcome,) = await executor.resume(["c1"])
    assert outcome.failure is not None
    assert "can be approved from" in outcome.failure.message
    assert bank.keys == []
    await session.close()


async def test_a_process_that_is_known_to_be_dead_is_not_waited_for(
    store: OtherMachine, bank: Bank, clock: FakeClock
) -> None:
    """On one machine a dead process is seen to be dead, and a yes counts at once."""
    await left_in_doubt(store, bank, clock, "pay")
    store.is_same_machine = True
    session, executor, outcome = await taken_up(store, bank, clock)
    assert outcome.approval is not None
    assert outcome.approval.approvable_at is None
    assert "The process died" in outcome.approval.reason

    await session.approvals.decide("c1", Approve(), by="ada")
    assert [outcome.text for outcome in await executor.resume(["c1"])] == ["paid 7"]
    await session.close()


async def test_what_is_known_stays_over_further_take_overs(
    store: OtherMachine, bank: Bank, clock: FakeClock
) -> None:
    """A writer that comes after one that has certainly died knows no more about the first."""
    await left_in_doubt(store, bank, clock, "pay")
    session, _, first = await taken_up(store, bank, clock)
    await session.close()
    store.is_same_machine = True
    session, _, second = await taken_up(store, bank, clock)

    assert first.approval is not None
    assert second.approval is not None
    assert second.approval.approvable_at == first.approval.approvable_at
    await session.close()


async def test_an_idempotent_call_runs_again_at_once(
    store: OtherMachine, bank: Bank, clock: FakeClock
) -> None:
    """Who may do it twice needs no wait."""
    await left_in_doubt(store, bank, clock, "put")
    session, _, outcome = await taken_up(store, bank, clock)

    assert outcome.text == "put 7"
    await session.close()


async def test_the_idempotency_key_is_the_same_in_every_attempt_by_whoever(
    store: OtherMachine, bank: Bank, clock: FakeClock
) -> None:
    """Handlers get one key for one call, over take-overs and re-runs, and it is the one that the
    ledger has; another call gets another.
    """
    session = await Session.open(store, "s", clock=clock)
    executor = Executor(session, bank.tools)
    await executor.call("pay", {"amount": 7}, call_id="c0")
    await session.close()
    for _ in range(2):
        await left_in_doubt_again(store, bank, clock)
    session, _, outcome = await taken_up(store, bank, clock)

    assert outcome.text == "put 7"
    started = [event for event in history(session) if isinstance(event, CallStarted)]
    assert [event.attempt for event in started] == [1, 1, 2, 3]
    first, *others = [event.idempotency_key for event in started]
    assert len(set(others)) == 1
    assert first not in others
    assert bank.keys == [first, others[0]]
    await session.close()


async def left_in_doubt_again(store: OtherMachine, bank: Bank, clock: FakeClock) -> None:
    """Start the call "c1", or take it up, without coming to its handler."""
    session = await Session.open(store, "s", clock=clock)
    executor = Executor(session, bank.tools)
    store.is_cut_off = True
    is_new = not session.in_doubt()
    trying = executor.call("put", {"amount": 7}, call_id="c1") if is_new else executor.resume()
    with pytest.raises(LeaseLost):
        await trying
    await session.close()
    store.is_cut_off = False
