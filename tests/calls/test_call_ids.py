"""Ids of calls, which come from models and clients."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from toolcrib import Executor, Session, SqliteStore, tool
from toolcrib.approval.caller import Caller
from toolcrib.calls.outcome import Outcome
from toolcrib.errors import UsageError
from toolcrib.ledger.record import Record
from toolcrib.store import MemoryStore, Store
from toolcrib.store.sqlite_reader import ENDED_CALL
from toolcrib.store.store import OpenCall


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


@pytest.mark.parametrize("call_id", ["", "a\nb", "\ud800", "x" * 257, "a\x00b"])
async def test_an_id_that_no_store_takes_is_refused_before_anything_is_recorded(
    call_id: str,
) -> None:
    """A hostile call id is refused at once, and the next call is not harmed by it."""
    session = Session()
    executor = Executor(session, [ping])

    with pytest.raises(UsageError, match="printable characters"):
        await executor.call("ping", call_id=call_id)

    assert [record.kind for record in session.records()] == ["session.opened"]
    assert (await executor.call("ping", call_id="é 漢字 ok")).ok


class Unread(MemoryStore):
    """A store in which nobody may look for a call."""

    def known_call(self, session_id: str, call_id: str) -> OpenCall | Record | None:
        raise AssertionError(f"the store was asked about {call_id}")


@pytest.mark.parametrize("call_id", [None, "call_made_at_random"])
async def test_an_id_that_was_just_made_is_not_looked_for(call_id: str | None) -> None:
    """Only an id from outside may be that of an earlier call; no other call pays for the search."""
    executor = Executor(Session(store=Unread()), [ping])

    outcome = await executor.call("ping", call_id=call_id, is_new_id=call_id is not None)

    assert outcome.ok
    assert call_id in (None, outcome.call_id)
    with pytest.raises(AssertionError, match="asked about given"):
        await executor.call("ping", call_id="given")


class Bank:
    """A tool with an effect that can be counted, in a session of any store."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    async def pay(self, amount: int) -> str:
        """Pay somebody."""
        if amount < 0:
            raise ValueError("no such amount")
        self.paid.append(amount)
        return f"paid {amount}"

    def executor(self, session: Session) -> Executor:
        return Executor(session, [tool(self.pay)])


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, sqlite_path: Path) -> Iterator[Store]:
    store = MemoryStore() if request.param == "memory" else SqliteStore(sqlite_path)
    yield store
    store.close()


ANN = Caller("ann")


class TestOneCall:
    """Security 12: one call id is one call, for as long as the ledger lives."""

    async def test_the_same_call_again_gives_the_recorded_result(self, store: Store) -> None:
        """Two requests with one id: one effect, one end, the same answer; also after a restart."""
        bank = Bank()
        async with await Session.open(store, "s") as session:
            first = await bank.executor(session).call("pay", {"amount": 5}, call_id="mine")
            again = await bank.executor(session).call("pay", {"amount": 5}, call_id="mine")
        async with await Session.open(store, "s") as session:
            later = await bank.executor(session).call("pay", {"amount": 5}, call_id="mine")
            ends = [record for record in session.records() if record.kind == "tool.invoked"]

        assert bank.paid == [5]
        assert len(ends) == 1
        for outcome in (first, again, later):
            assert (outcome.status, outcome.text, outcome.value) == (
                "completed",
                "paid 5",
                "paid 5",
            )

    async def test_a_failure_is_given_again_too(self, store: Store) -> None:
        """Whatever the end was, the id is used up."""
        async with await Session.open(store, "s") as session:
            executor = Bank().executor(session)
            for _ in range(2):
                outcome = await executor.call("pay", {"amount": -1}, call_id="mine")
                assert outcome.failure is not None
                assert outcome.failure.message == "ValueError: no such amount"

    @pytest.mark.parametrize(
        ("name", "amount", "caller"), [("pay", 6, ANN), ("ping", 5, ANN), ("pay", 5, Caller("bob"))]
    )
    async def test_another_call_under_the_id_is_a_conflict(
        self, store: Store, name: str, amount: int, caller: Caller
    ) -> None:
        """Other arguments, another tool or another principal: nothing runs, nothing is recorded."""
        bank = Bank()
        async with await Session.open(store, "s") as session:
            executor = Executor(session, [tool(bank.pay), ping])
            await executor.call("pay", {"amount": 5}, call_id="mine", caller=ANN)
            head = session.head()

            with pytest.raises(UsageError, match="'mine' is of another call, which has ended"):
                await executor.call(name, {"amount": amount}, call_id="mine", caller=caller)

            assert session.head() == head
        assert bank.paid == [5]

    async def test_the_order_of_arguments_does_not_count(self, store: Store) -> None:
        """The same request is the same however its JSON is written."""

        @tool
        async def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        async with await Session.open(store, "s") as session:
            executor = Executor(session, [add])
            await executor.call("add", b'{"a":1,"b":2}', call_id="mine")
            assert (await executor.call("add", b'{ "b":2, "a":1 }', call_id="mine")).value == 3

    async def test_two_at_once_have_one_effect(self, store: Store) -> None:
        """The others are refused while the first is under way, or get its result."""
        bank = Bank()
        async with await Session.open(store, "s") as session:
            executor = bank.executor(session)
            calls = [executor.call("pay", {"amount": 5}, call_id="mine") for _ in range(20)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)

        assert bank.paid == [5]
        values = [each.value for each in outcomes if isinstance(each, Outcome)]
        refused = [each for each in outcomes if isinstance(each, UsageError)]
        assert set(values) == {"paid 5"}
        assert len(values) + len(refused) == 20

    async def test_a_cancelled_call_is_not_made_again(self, store: Store) -> None:
        """An end that nobody waited for is still the end."""
        began = asyncio.Event()
        count = 0

        @tool
        async def hang() -> None:
            """Never end."""
            nonlocal count
            count += 1
            began.set()
            await asyncio.Event().wait()

        async with await Session.open(store, "s") as session:
            executor = Executor(session, [hang])
            task = asyncio.ensure_future(executor.call("hang", call_id="mine"))
            await began.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

            outcome = await executor.call("hang", call_id="mine")

        assert outcome.failure is not None
        assert (outcome.failure.kind, count) == ("cancelled", 1)

    async def test_a_model_may_use_its_ids_in_every_turn(self, store: Store) -> None:
        """Within one turn an id is one call; in the next turn it is another one."""
        bank = Bank()
        async with await Session.open(store, "s") as session:
            executor = bank.executor(session)
            for amount in (5, 6):
                with executor.turn():
                    for _ in range(2):
                        await executor.call("pay", {"amount": amount}, call_id="call_0")

        assert bank.paid == [5, 6]

    async def test_the_form_of_generated_ids_is_not_for_callers(self, store: Store) -> None:
        """The session gives its ids without a look at the ledger, so they must be its own."""
        bank = Bank()
        async with await Session.open(store, "s") as session:
            executor = bank.executor(session)
            with pytest.raises(UsageError, match="'call_1_1' is an id that the session gives"):
                await executor.call("pay", {"amount": 5}, call_id="call_1_1")

        assert bank.paid == []

    async def test_after_its_payload_was_deleted_the_id_is_still_used_up(
        self, store: Store
    ) -> None:
        """What it gave is gone, and so nobody can have it; it does not run again either."""
        bank = Bank()
        async with await Session.open(store, "s") as session:
            executor = bank.executor(session)
            await executor.call("pay", {"amount": 5}, call_id="mine")
            await session.delete_payloads("ann")

            with pytest.raises(UsageError, match="what it gave was deleted"):
                await executor.call("pay", {"amount": 5}, call_id="mine")

        assert bank.paid == [5]


def test_an_id_is_looked_up_by_an_index(sqlite_path: Path) -> None:
    """Security 12: the look takes no longer in a long ledger."""
    SqliteStore(sqlite_path).close()
    with closing(sqlite3.connect(sqlite_path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {ENDED_CALL}", ("s", "mine")).fetchall()

    assert [step[-1] for step in plan] == [
        "SEARCH r USING INDEX ended_calls (session_id=? AND call_id=?)",
        "SEARCH p USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    ]
