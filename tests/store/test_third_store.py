"""A store that has nothing but the protocol serves sessions, executors, approvals and resuming."""

from __future__ import annotations

import pytest

from tests.store.facts import FakeClock
from tests.store.forwarding_store import ForwardingStore
from toolcrib import Approve, Executor, NewGrant, Session, tool
from toolcrib.store import MemoryStore
from toolcrib.store.store import Store


@tool(requires_approval=True)
async def pay(amount: int) -> str:
    """Pay somebody.

    Args:
        amount: How much.
    """
    return f"paid {amount}"


@tool
async def look(path: str) -> str:
    """Look at a file.

    Args:
        path: Which one.
    """
    return f"looked at {path}" * 9000


@pytest.fixture(params=[True, False], ids=["durable", "volatile"])
def third(request: pytest.FixtureRequest, clock: FakeClock) -> Store:
    """The third store, as one that survives the process and as one that does not."""
    return ForwardingStore(MemoryStore(clock=clock), is_durable=request.param)


async def test_a_waiting_call_goes_on_in_another_session_object(third: Store) -> None:
    """Calls, artifacts, approvals and resuming need the protocol and no more."""
    async with await Session.open(third, "s") as session:
        executor = Executor(session, [pay, look])
        with executor.turn():
            whole = await executor.call("look", {"path": "a"})
            outcomes = [await executor.call("pay", {"amount": each}) for each in range(5)]
        assert [outcome.status for outcome in outcomes] == ["waiting"] * 5
        assert whole.artifact_id is not None
        assert session.artifacts.read(whole.artifact_id).total_chars == len("looked at a") * 9000
        assert len(session.approvals.pending()) == 5

    async with await Session.open(third, "s") as again:
        for outcome in outcomes:
            await again.approvals.decide(outcome.call_id, Approve(), by="ada")
        ended = await Executor(again, [pay, look]).resume()

        assert [outcome.value for outcome in ended] == [f"paid {each}" for each in range(5)]
        assert again.open_calls() == []
        assert again.turn == 1
        assert again.verify() == again.head()


async def test_a_grant_lets_later_calls_run(third: Store) -> None:
    """A standing grant is found, used and taken back through the protocol."""
    async with await Session.open(third, "s") as session:
        executor = Executor(session, [pay])
        first = await executor.call("pay", {"amount": 1})
        await session.approvals.decide(
            first.call_id, Approve(), by="ada", grant=NewGrant(scope="session")
        )
        second = await executor.call("pay", {"amount": 1})
        assert second.value == "paid 1"

        (grant,) = session.approvals.grants()
        assert await session.approvals.revoke(grant.grant_id, by="ada")
        assert (await executor.call("pay", {"amount": 1})).status == "waiting"


async def test_a_state_is_restored_through_the_protocol(clock: FakeClock) -> None:
    """A session goes on from its state in a store that is not the memory store."""
    source = Session("s", store=ForwardingStore(MemoryStore(clock=clock), is_durable=False))
    executor = Executor(source, [pay, look])
    waiting = await executor.call("pay", {"amount": 7})
    decided = await executor.call("pay", {"amount": 8})
    await source.approvals.decide(decided.call_id, Approve(), by="ada")
    used = await executor.call("pay", {"amount": 9})
    await source.approvals.decide(used.call_id, Approve(), by="ada")
    await executor.resume([used.call_id])
    whole = await executor.call("look", {"path": "a"})
    await source.ledger.flush()
    state = source.export_state()

    target = Session(store=ForwardingStore(MemoryStore(clock=clock), is_durable=False))
    target.with_state(state)

    assert list(target.records())[: len(state.records)] == list(state.records)
    assert target.export_state().approvals == state.approvals
    assert target.open_calls() == list(state.open_calls)
    assert whole.artifact_id is not None
    assert target.artifacts.read(whole.artifact_id).total_chars > 0
    ended = await Executor(target, [pay, look]).resume()
    assert {outcome.call_id: outcome.value for outcome in ended} == {
        waiting.call_id: None,
        decided.call_id: "paid 8",
    }
    assert target.verify() == target.head()


async def test_executors_of_one_session_share_their_calls(third: Store) -> None:
    """A call that one executor left waiting is known to every other one of the session."""
    async with await Session.open(third, "s") as session:
        one, two = Executor(session, [pay]), Executor(session, [pay])
        waiting = await one.call("pay", {"amount": 1})

        assert two.is_waiting(waiting.call_id)
        await session.approvals.decide(waiting.call_id, Approve(), by="ada")
        assert (await two.call("pay", call_id=waiting.call_id)).value == "paid 1"
        assert not one.is_waiting(waiting.call_id)
