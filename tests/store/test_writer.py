"""The writer of a store: what is committed together, and what fails alone."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.store.facts import FakeClock, Source, chain, open_call, write
from toolcrib import Executor, Session, tool
from toolcrib.errors import LeaseLost, StoreError
from toolcrib.ledger.record import verify
from toolcrib.store import MemoryStore, PostgresStore, SqliteStore
from toolcrib.store.cipher import new_key
from toolcrib.store.store import CallOpened, Commit

DurableStore = SqliteStore | PostgresStore


@pytest.fixture(params=["sqlite", "postgres"])
def durable(
    request: pytest.FixtureRequest, sqlite_path: Path, clock: FakeClock
) -> Iterator[DurableStore]:
    """Every store with a writer that commits for many ledgers at once."""
    if request.param == "sqlite":
        store: DurableStore = SqliteStore(sqlite_path, clock=clock)
    else:
        url = request.getfixturevalue("postgres_url")
        store = PostgresStore(url, clock=clock, key=new_key())
    yield store
    store.close()


class Gate(Source):
    """A source that holds the writer thread up until it is opened."""

    def __init__(self, store: DurableStore) -> None:
        super().__init__(store, store.acquire("gate"))
        self.is_reached = threading.Event()
        self.is_open = threading.Event()

    def drain(self) -> Commit:
        self.is_reached.set()
        assert self.is_open.wait(PATIENCE)
        return super().drain()


def hold_up(store: DurableStore) -> Gate:
    """Keep the writer thread busy, so that what is scheduled next waits together."""
    gate = Gate(store)
    store.schedule(gate)
    assert gate.is_reached.wait(PATIENCE)
    return gate


def test_what_waits_is_committed_together(durable: DurableStore) -> None:
    """Any number of ledgers that wait at the same time cost one transaction."""
    sources = [Source(durable, durable.acquire(f"s{n}")).add(f"c{n}") for n in range(20)]
    gate = hold_up(durable)
    for source in sources:
        durable.schedule(source)
    before = durable.transactions

    gate.is_open.set()

    assert [source.outcome() for source in sources] == [None] * 20
    assert durable.transactions == before + 2
    for n in range(20):
        assert verify(durable.records(f"s{n}")) == sources[n].head


def test_a_source_that_waits_twice_is_drained_once(durable: DurableStore) -> None:
    """Scheduling a ledger again before its turn adds nothing."""
    source = Source(durable, durable.acquire("s"))
    gate = hold_up(durable)
    for call_id in ("c1", "c2", "c3"):
        durable.schedule(source.add(call_id))

    gate.is_open.set()

    assert source.outcome() is None
    assert source.drains == 1
    assert [record.call_id for record in durable.records("s")] == ["c1", "c2", "c3"]


def test_a_void_lease_fails_alone(durable: DurableStore) -> None:
    """In a group, who may not write is told so, and all others are committed."""
    good = [Source(durable, durable.acquire(f"s{n}")).add() for n in range(3)]
    lease = durable.acquire("lost")
    bad = Source(durable, lease).add("c1", CallOpened(open_call(has_secrets=True)))
    durable.release(lease)
    gate = hold_up(durable)
    for source in (good[0], bad, *good[1:]):
        durable.schedule(source)

    gate.is_open.set()

    assert [source.outcome() for source in good] == [None] * 3
    assert isinstance(bad.outcome(), LeaseLost)
    assert list(durable.records("lost")) == []
    assert durable.open_calls("lost") == []


def test_a_ledger_that_breaks_when_told_does_not_stop_the_store(
    durable: DurableStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault in one ledger is logged; the writer goes on."""

    class Fragile(Source):
        def settled(self, error: BaseException | None) -> None:
            super().settled(error)
            raise RuntimeError("the loop is gone")

    fragile = Fragile(durable, durable.acquire("fragile")).add()
    durable.schedule(fragile)
    write(durable, durable.acquire("s"))

    assert fragile.outcome() is None
    assert "a ledger failed" in caplog.text


def test_a_failed_write_leaves_the_store_usable(durable: DurableStore) -> None:
    """An error in one job is its caller's; the next one starts afresh."""
    lease = durable.acquire("s")
    (record,) = chain(1)
    with pytest.raises(StoreError):
        durable.commit(lease, Commit([record, record], ()))

    write(durable, lease)


def test_what_was_scheduled_is_committed_before_closing(sqlite_path: Path) -> None:
    """Closing waits for what is under way, and afterwards nothing is accepted."""
    store = SqliteStore(sqlite_path)
    lease = store.acquire("s")
    source = Source(store, lease).add()
    store.schedule(source)
    store.close()

    assert source.outcomes == [None]
    for use in (lambda: store.schedule(source), store.sessions, lambda: store.acquire("s")):
        with pytest.raises(StoreError, match="is closed; open it again"):
            use()
    store.close()


def test_the_writer_does_not_wait_for_itself(durable: DurableStore) -> None:
    """A ledger that writes from within `settled` gets an error, not a deadlock."""
    errors: list[Exception] = []

    class Reentrant(Source):
        def settled(self, error: BaseException | None) -> None:
            try:
                durable.release(self.lease)
            except StoreError as refused:
                errors.append(refused)
            super().settled(error)

    source = Reentrant(durable, durable.acquire("s")).add()
    durable.schedule(source)

    assert source.outcome() is None
    assert "cannot wait for itself" in str(errors[0])


def test_no_thread_is_started_to_read(sqlite_path: Path) -> None:
    """Looking at a store costs no thread."""
    before = threading.active_count()
    with SqliteStore(sqlite_path) as store:
        store.sessions()

        assert threading.active_count() == before


def test_text_that_no_database_takes_fails_alone(durable: DurableStore) -> None:
    """A call id that is not text at all fails its own ledger, not those in the same group."""
    good = Source(durable, durable.acquire("good")).add()
    bad = Source(durable, durable.acquire("bad")).add("lone \ud800 surrogate")
    gate = hold_up(durable)
    for source in (bad, good):
        durable.schedule(source)

    gate.is_open.set()

    assert good.outcome() is None
    assert isinstance(bad.outcome(), UnicodeEncodeError | StoreError)
    assert list(durable.records("bad")) == []


def test_a_store_that_cannot_be_written_says_so(sqlite_path: Path) -> None:
    """When the file is gone by the first write, every write gets the reason."""
    store = SqliteStore(sqlite_path)
    sqlite_path.rename(sqlite_path.with_suffix(".moved"))
    sqlite_path.mkdir()

    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be used: unable to open"):
            store.acquire("s")
    memory = MemoryStore()
    source = Source(memory, memory.acquire("s"))
    store.schedule(source)

    assert isinstance(source.outcome(), StoreError)
    store.close()


def test_a_lease_that_another_process_took_is_not_renewed(sqlite_path: Path) -> None:
    """A replaced writer gives up; it does not keep its successor's lease alive."""
    with SqliteStore(sqlite_path, lease_seconds=0.03) as store, raw(sqlite_path) as connection:
        store.acquire("s")
        connection.execute("UPDATE sessions SET fence = fence + 1, expires_at = 7")
        before = store.transactions

        while store.transactions == before:
            os.sched_yield()

        assert connection.execute("SELECT expires_at FROM sessions").fetchone() == (7,)


def test_a_renewal_that_fails_is_tried_again(
    sqlite_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While another process blocks the file leases cannot be renewed; later they are."""
    with (
        SqliteStore(sqlite_path, lease_seconds=0.03, busy_seconds=0.001) as store,
        raw(sqlite_path) as connection,
    ):
        lease = store.acquire("s")
        connection.execute("BEGIN IMMEDIATE")
        while "were not renewed" not in caplog.text:
            os.sched_yield()
        before = store.transactions

        connection.execute("ROLLBACK")

        while store.transactions == before:
            os.sched_yield()
        write(store, lease)

        assert store.head("s") is not None


def raw(path: Path) -> "closing[sqlite3.Connection]":
    return closing(sqlite3.connect(path, isolation_level=None))


class TestPowerLoss:
    """Security: starts of calls with effects wait for the disk, together, and nothing else does."""

    @pytest.mark.parametrize(
        ("options", "waits"),
        [({}, 1), ({"is_idempotent": True}, 0), ({"is_read_only": True}, 0)],
    )
    async def test_starts_of_calls_with_effects_wait(
        self, sqlite_path: Path, options: dict[str, Any], waits: int
    ) -> None:
        """One wait a call; none where to run it again does no harm."""
        waited_before_handler: list[int] = []

        @tool(**options)
        async def pay() -> None:
            """Pay."""
            waited_before_handler.append(store.synced_transactions)

        with SqliteStore(sqlite_path) as store:
            async with await Session.open(store, "s") as session:
                assert (await Executor(session, [pay]).call("pay")).ok
            assert store.synced_transactions == waits

        assert waited_before_handler == [waits]

    async def test_calls_at_once_share_a_wait(self, sqlite_path: Path) -> None:
        """Many callers cost the disk little more than one."""

        @tool
        async def pay() -> None:
            """Pay."""

        with SqliteStore(sqlite_path) as store:
            async with await Session.open(store, "s") as session:
                executor = Executor(session, [pay])
                await asyncio.gather(*(executor.call("pay") for _ in range(64)))
            assert 1 <= store.synced_transactions < 32

    async def test_normal_waits_for_nothing(self, sqlite_path: Path) -> None:
        """As it says."""

        @tool
        async def pay() -> None:
            """Pay."""

        with SqliteStore(sqlite_path, synchronous="normal") as store:
            async with await Session.open(store, "s") as session:
                await Executor(session, [pay]).call("pay")
            assert store.synced_transactions == 0
