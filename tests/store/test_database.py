"""The database of a store on PostgreSQL: long steps of its schema, a primary that became a standby,
and texts that it cannot keep.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import pytest

from tests.helpers.patience import PATIENCE
from tests.store.facts import Source, request, write
from toolcrib.errors import LeaseLost, StoreError
from toolcrib.store import PostgresStore
from toolcrib.store.postgres import row_deletion, schema
from toolcrib.store.postgres.database import PostgresDatabase, Timeouts
from toolcrib.store.postgres.schema import SCHEMA_LOCK, Migration
from toolcrib.store.postgres.side_connection import SideConnection
from toolcrib.store.store import ApprovalFiled, CallClosed, Commit

IMPATIENT = Timeouts(statement=0.5, outage=1.0)


def run(url: str, *statements: str) -> list[Any]:
    """The rows of the last of some statements."""

    async def fetch() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            rows = [await connection.fetch(statement) for statement in statements]
            return [tuple(row) for row in rows[-1]]
        finally:
            await connection.close()

    return asyncio.run(fetch())


def test_a_step_of_the_schema_may_take_longer_than_a_statement(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the database nor the driver ends it: an index of a large table takes its time."""
    slow = Migration(99, "slow", "-- least: 1\nSELECT pg_sleep(1.0);")
    steps = (*schema.migrations(), slow)
    monkeypatch.setattr(schema, "migrations", lambda: steps)

    with PostgresStore(postgres_url, timeouts=IMPATIENT) as store:
        write(store, store.acquire("s"))

    assert run(postgres_url, "SELECT max(version) FROM schema_version") == [(99,)]


def test_a_replica_waits_for_the_one_that_makes_the_tables(postgres_url: str) -> None:
    """However long that takes."""

    async def main() -> float:
        other = await asyncpg.connect(postgres_url)
        await other.execute("SELECT pg_advisory_lock($1)", SCHEMA_LOCK)
        began = time.monotonic()
        opened = asyncio.create_task(asyncio.to_thread(open_and_write))
        # Longer than a statement and an outage may take together.
        await asyncio.sleep(2.0)
        await other.close()
        await opened
        return time.monotonic() - began

    def open_and_write() -> None:
        with PostgresStore(postgres_url, timeouts=IMPATIENT) as store:
            write(store, store.acquire("s"))

    assert asyncio.run(main()) >= 2.0


def test_what_was_the_primary_is_left_for_what_is_the_primary_now(postgres_url: str) -> None:
    """A server that became a standby keeps its connections and refuses all changes. Whoever was
    refused comes back over another connection, which leads to the primary of then.
    """
    database = postgres_url.rpartition("/")[2]
    with PostgresStore(postgres_url, timeouts=Timeouts(outage=0.2)) as store:
        lease = store.acquire("s")
        run(postgres_url, f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
        with pytest.raises(StoreError, match="takes no changes"):
            write(store, lease)
        reset = f'ALTER DATABASE "{database}" RESET default_transaction_read_only'
        run(postgres_url, "SET default_transaction_read_only = off", reset)

        write(store, lease)

        assert len(list(store.records("s"))) == 1


@pytest.mark.parametrize("text", ["a\0word", "a\ud800word"])
def test_a_text_that_cannot_be_kept_is_refused_without_showing_it(
    shared: PostgresStore, text: str
) -> None:
    """The words of the driver quote what it was given, which may be anybody's."""
    lease = shared.acquire("s")
    with pytest.raises(StoreError, match="cannot keep") as refused:
        shared.commit(lease, Commit((), [CallClosed(text)]))
    assert "word" not in str(refused.value)
    write(shared, lease)


async def test_a_session_whose_row_is_locked_fails_alone(postgres_url: str) -> None:
    """Its index may be made anew, which takes long for a long ledger: sessions that are committed
    with it are written.
    """
    timeouts = Timeouts(statement=1.5, outage=0.5)
    connection = await asyncpg.connect(postgres_url)
    with PostgresStore(postgres_url, timeouts=timeouts) as store:
        leases = [await asyncio.to_thread(store.acquire, name) for name in ("locked", "free")]
        locked, free = (Source(store, lease).add() for lease in leases)
        gate = Source(store, await asyncio.to_thread(store.acquire, "gate")).add()
        try:
            async with connection.transaction():
                await connection.execute(
                    "SELECT 1 FROM sessions WHERE session_id = 'locked' FOR UPDATE"
                )
                for source in (gate, locked, free):
                    store.schedule(source)
                assert await asyncio.to_thread(free.outcome) is None
                refused = await asyncio.to_thread(locked.outcome)
        finally:
            await connection.close()
        assert isinstance(refused, StoreError)
        assert "locked" in str(refused)
        await asyncio.to_thread(write, store, leases[0])


def test_nobody_waits_for_a_session_whose_row_is_locked(postgres_url: str) -> None:
    """Its neighbours of the group are told of their commits, later ones too, and other sessions are
    opened and closed, all long before the locked one fails. Its own commits are written in their
    order once its row is free.
    """
    key, is_locked, can_go = "locked", threading.Event(), threading.Event()

    async def lock() -> None:
        connection = await asyncpg.connect(postgres_url)
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM sessions WHERE session_id = $1 FOR UPDATE", key)
            is_locked.set()
            await asyncio.to_thread(can_go.wait, PATIENCE)
        await connection.close()

    # It would fail, and hold up all others, only after the test has given up.
    with PostgresStore(postgres_url, timeouts=Timeouts(outage=PATIENCE * 2)) as store:
        leases = [store.acquire(name) for name in (key, "beside", "gate")]
        first, beside, gate = (Source(store, lease).add() for lease in leases)
        second = Source(store, leases[0])
        thread = threading.Thread(target=asyncio.run, args=(lock(),))
        thread.start()
        try:
            assert is_locked.wait(PATIENCE)
            for source in (gate, first, beside):
                store.schedule(source)
            assert beside.outcome() is None
            for number in range(20):
                write(store, leases[1])
                store.release(store.acquire(f"new {number}"))
            second.head = first.head
            store.schedule(second.add("c2"))
            write(store, leases[1])
            assert (first.outcomes, second.outcomes) == ([], [])
        finally:
            can_go.set()
            thread.join()
        assert (first.outcome(), second.outcome()) == (None, None)
        assert [record.call_id for record in store.records(key)] == ["c1", "c2"]
        store.release(leases[0])


_SLOW_DELETION = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(0.02); RETURN OLD; END'
"""


@pytest.mark.parametrize("is_whole", [True, False], ids=["session", "payloads"])
def test_a_long_session_is_deleted_in_portions(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """All of it takes longer than a statement may; it is deleted nevertheless, and nobody who
    writes or reads another session waits for it.
    """
    monkeypatch.setattr(row_deletion, "_PORTION", 10)
    with PostgresStore(postgres_url, timeouts=IMPATIENT) as store:
        lease, other = store.acquire("long"), store.acquire("other")
        filed = [ApprovalFiled(request(f"a{number}", "long")) for number in range(15)]
        write(store, lease, 50, filed)
        trigger = "CREATE TRIGGER slow BEFORE DELETE ON payloads FOR EACH ROW EXECUTE FUNCTION"
        run(postgres_url, _SLOW_DELETION, f"{trigger} slow()")
        if is_whole:
            store.release(lease)
        with ThreadPoolExecutor(1) as pool:
            if is_whole:
                deletion = pool.submit(store.delete_session, "long")
            else:
                deletion = pool.submit(store.delete_payloads, lease, 50)
            while not deletion.done():
                write(store, other, 1, [ApprovalFiled(request(secrets.token_hex(4), "other"))])
            deletion.result()

        assert len(list(store.records("other"))) > 1
        assert run(postgres_url, "SELECT count(*) FROM payloads WHERE session = 1") == [(0,)]
        if is_whole:
            assert [info.session_id for info in store.sessions().items] == ["other"]
            tables = ("records", "approvals", "calls")
            for table in tables:
                rows = run(postgres_url, f"SELECT count(*) FROM {table} WHERE session = 1")
                assert rows == [(0,)], table
        else:
            assert len(list(store.records("long"))) == 50


@pytest.mark.parametrize("is_grouped", [False, True], ids=["statement", "transaction"])
def test_what_was_written_is_not_written_again_when_its_answer_is_lost(
    shared: PostgresStore, monkeypatch: pytest.MonkeyPatch, is_grouped: bool
) -> None:
    """The connection broke after the commit, whether that was one statement or a transaction with
    requests: the writer finds its record by its hash, and whoever waits is told of a success.
    """
    lease = shared.acquire("s")
    lost: list[str] = []
    method = "execute" if is_grouped else "fetch"
    ask: Callable[..., Any] = getattr(asyncpg.Connection, method)

    async def lose(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        answer = await ask(self, query, *arguments, **options)
        if query == "COMMIT" or "WITH wanted" in query:
            lost.append(query)
            # Every other one, so that the next attempt gets through.
            if len(lost) % 2:
                raise ConnectionResetError("the answer is lost")
        return answer

    monkeypatch.setattr(asyncpg.Connection, method, lose)
    for number in range(3):
        effects = [ApprovalFiled(request(f"a{number}"))] if is_grouped else []
        write(shared, lease, 2, effects)
        # Without records only the requests themselves say that they are there.
        if is_grouped:
            shared.commit(lease, Commit((), [ApprovalFiled(request(f"b{number}"))]))

    assert len(lost) >= 3
    assert [record.seq for record in shared.records("s")] == [1, 2, 3, 4, 5, 6]
    assert len(shared.approvals().items) == (6 if is_grouped else 0)


def test_a_question_that_fails_does_not_fail_what_was_written_with_it(
    shared: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a group one commit is written and one is refused, and the database does not say why: the
    ledger of the first is not told that its record is not there.
    """
    kept, refused = (Source(shared, shared.acquire(name)).add() for name in ("kept", "refused"))
    run(postgres_url, "UPDATE sessions SET fence = fence + 1 WHERE session_id = 'refused'")
    fetch: Callable[..., Any] = asyncpg.Connection.fetch
    failed: list[str] = []

    async def fail_once(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        if "s.replica_id IS NOT NULL, s.head_seq" in query and not failed:
            failed.append(query)
            raise asyncpg.QueryCanceledError("canceling statement due to statement timeout")
        return await fetch(self, query, *arguments, **options)

    monkeypatch.setattr(asyncpg.Connection, "fetch", fail_once)
    gate = Source(shared, shared.acquire("gate")).add()
    drain, is_drained = gate.drain, threading.Event()

    def drain_slowly() -> Commit:
        # So that the other two are drained together, after this one.
        is_drained.wait(PATIENCE)
        return drain()

    monkeypatch.setattr(gate, "drain", drain_slowly)
    for source in (gate, kept, refused):
        shared.schedule(source)
    is_drained.set()

    assert (gate.outcome(), kept.outcome()) == (None, None)
    assert isinstance(refused.outcome(), LeaseLost)
    assert failed
    assert kept.head == shared.head("kept")


async def test_a_connection_that_was_not_prepared_is_not_used(postgres_url: str) -> None:
    """One that could not listen would never hear anything: the next one is prepared anew."""
    prepared: list[object] = []

    async def prepare(connection: object) -> None:
        prepared.append(connection)
        if len(prepared) == 1:
            raise asyncpg.InsufficientPrivilegeError("not yet")

    async def look(connection: Any) -> object:
        return connection

    side = SideConnection(PostgresDatabase(postgres_url, Timeouts(), 1), prepare)
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await side.use(look, 5.0)
        assert await side.use(look, 5.0) is prepared[1]
    finally:
        await side.close()


def test_a_pooler_is_sent_no_setting_that_it_refuses(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PgBouncer takes a few settings when a connection begins, and ends it for any other."""
    connect, settings = asyncpg.connect, list[Any]()

    async def watched(*args: Any, **options: Any) -> Any:
        settings.append(options["server_settings"])
        return await connect(*args, **options)

    monkeypatch.setattr(asyncpg, "connect", watched)
    with PostgresStore(postgres_url) as store:
        write(store, store.acquire("s"))

    assert {name for each in settings for name in each} == {"application_name"}


@pytest.mark.parametrize(
    "error", [asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError]
)
def test_a_pooler_of_transactions_is_named(error: type[Exception]) -> None:
    """What it does to prepared statements says nothing to whoever set it up."""
    database = PostgresDatabase("postgresql://db.example/crib", Timeouts(), 1)

    assert "pool_mode = session" in str(database.explain(error("statement 1 already exists")))
