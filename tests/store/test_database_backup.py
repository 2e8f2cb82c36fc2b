"""Backups of a store on PostgreSQL, its weeks, and its upkeep."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import asyncpg
import pytest
from typer.testing import CliRunner, Result

from tests.helpers.patience import PATIENCE
from tests.servers.postgres import PostgresServer
from tests.store.facts import PERSON, FakeClock, open_call, write
from toolcrib.cli.app import app
from toolcrib.errors import LeaseLost, StoreError
from toolcrib.store import PostgresStore, Store
from toolcrib.store.cipher import new_key
from toolcrib.store.postgres.backup import back_up_database, restore_database
from toolcrib.store.postgres.database import PostgresDatabase, Timeouts
from toolcrib.store.postgres.partitions import WEEK, partition_name, week_of
from toolcrib.store.postgres.schema import apply_step, migrations
from toolcrib.store.postgres.upkeep import UPKEEP_LOCK, Upkeep
from toolcrib.store.retention import Retention, prune
from toolcrib.store.shared_store import QueuedTurn, SharedValue
from toolcrib.store.store import Artifact, ArtifactKept, CallOpened, Commit
from toolcrib.store.verification import verify_session

KEY = new_key()


def run(url: str, sql: str, *parameters: object) -> list[Any]:
    """The rows of one statement."""

    async def fetch() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(sql, *parameters)]
        finally:
            await connection.close()

    return asyncio.run(fetch())


def check(store: Store, session_id: str) -> None:
    """The session verifies, with what lies beside it."""
    verify_session(store, session_id)


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def crib(postgres_url: str) -> str:
    """The URL of a store: `done` is over and has an artifact, `calling` an open call; a secret."""
    with PostgresStore(postgres_url, key=KEY) as store:
        for session_id in ("done", "calling"):
            lease = store.acquire(session_id, owner="alice", settings={"model": "m"})
            effects = [
                CallOpened(open_call())
                if session_id == "calling"
                else ArtifactKept(Artifact("art", "c1", "text"))
            ]
            write(store, lease, 3, effects)
            store.release(lease)
        store.put_value(SharedValue("tokens/t", b"hush-hush", is_secret=True), after=None)
        store.put_value(SharedValue("session/done/link/r1", b"there"), after=None)
    return postgres_url


def test_a_backup_becomes_the_same_store_again(
    crib: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """One file, taken while a replica has a session open, restored into an empty database: chains,
    artifacts, open calls and secrets are there; replicas, leases and links are not.
    """
    backup, empty = tmp_path / "b", postgres.database()
    with PostgresStore(crib, key=KEY) as store:
        store.join("http://10.0.0.1:8420")
        store.acquire("done", create=False)
        done = invoke("store", "backup", backup, "--store", crib)
        assert "2 sessions, 6 records" in done.stdout, done.output
    assert backup.stat().st_mode & 0o777 == 0o600
    done = invoke("store", "restore", backup, "--store", empty)
    assert done.stdout == f"{empty}: 2 sessions, 6 records\n"

    with PostgresStore(empty, key=KEY) as restored:
        check(restored, "done")
        assert restored.artifact("done", "art") == "text"
        assert [call.call_id for call in restored.open_calls("calling")] == [open_call().call_id]
        assert restored.session("done").settings == {"model": "m"}
        value = restored.value("tokens/t")
        assert value is not None
        assert value.body == b"hush-hush"
        assert restored.value("session/done/link/r1") is None
        assert restored.replicas() == []
        lease = restored.acquire("done", create=False)
        write(restored, lease, 1)
        # Sequences go on behind what was restored.
        restored.acquire("new")
    assert invoke("audit", "verify", "--store", empty).exit_code == 0


def test_secrets_are_in_the_backup_only_as_ciphertext(crib: str, tmp_path: Path) -> None:
    """Whoever finds the file has neither the secrets nor the key."""
    back_up_database(crib, tmp_path / "b")

    with ZipFile(tmp_path / "b") as archive:
        whole = b"".join(archive.read(name) for name in archive.namelist())
    assert b"hush-hush" not in whole
    assert KEY.encode() not in whole
    assert b"tokens/t" in whole


def test_the_backup_is_of_one_moment(crib: str, postgres: PostgresServer, tmp_path: Path) -> None:
    """A replica that commits while the tables are copied, one after the other, adds nothing to it.
    Without one snapshot the records of a later table would have no session in an earlier one.
    """
    is_over = False

    async def both() -> None:
        nonlocal is_over

        def keep_writing() -> None:
            with PostgresStore(crib, key=KEY) as store:
                count = 0
                while not is_over:
                    lease = store.acquire(f"s{count}")
                    write(store, lease, 2)
                    store.release(lease)
                    count += 1

        writing = asyncio.create_task(asyncio.to_thread(keep_writing))
        try:
            for number in range(4):
                await asyncio.to_thread(back_up_database, crib, tmp_path / f"b{number}")
        finally:
            is_over = True
            await writing

    asyncio.run(both())
    facts = restore_database(tmp_path / "b3", postgres.database())
    # Of at most one session there were no records yet.
    assert 0 <= (facts.sessions - 2) * 2 - (facts.records - 6) <= 2


def test_no_lease_of_before_holds_in_a_restored_store(
    crib: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """A process that slept through the restore had a lease, given out after the backup. A fence of
    the restored store never equals its own.
    """
    back_up_database(crib, tmp_path / "b")
    with PostgresStore(crib, key=KEY) as store:
        for _ in range(20):
            old = store.acquire("done", create=False)
            store.release(old)
        old = store.acquire("done", create=False)
    empty = postgres.database()
    restore_database(tmp_path / "b", empty)

    with PostgresStore(empty, key=KEY) as restored:
        for _ in range(30):
            lease = restored.acquire("done", create=False)
            assert lease.fence > old.fence
            restored.release(lease)
        lease = restored.acquire("done", create=False)
        with pytest.raises(LeaseLost):
            restored.commit(old, Commit((), ()))


def test_nothing_is_restored_over_tables(crib: str, tmp_path: Path) -> None:
    """Not over a store, and not over another program's database."""
    invoke("store", "backup", tmp_path / "b", "--store", crib)

    done = invoke("store", "restore", tmp_path / "b", "--store", crib)
    assert (done.exit_code, "has tables already" in done.stderr) == (1, True)
    again = invoke("store", "backup", tmp_path / "b", "--store", crib)
    assert (again.exit_code, "is there already" in again.stderr) == (1, True)


@pytest.mark.parametrize("member", ["tables/payloads", "heads"])
def test_a_changed_backup_is_refused_whole(
    crib: str, postgres: PostgresServer, tmp_path: Path, member: str
) -> None:
    """Nothing of it reaches the database."""
    back_up_database(crib, tmp_path / "b")
    empty = postgres.database()
    _rewrite(tmp_path / "b", tmp_path / "c", member, lambda data: data.replace(b"e", b"f", 1))

    with pytest.raises(StoreError, match="is damaged"):
        restore_database(tmp_path / "c", empty)
    assert run(empty, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []


def test_a_backup_of_a_newer_schema_is_refused(
    crib: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """The error says what to do."""
    back_up_database(crib, tmp_path / "b")

    def newer(data: bytes) -> bytes:
        manifest = json.loads(data)
        return json.dumps({**manifest, "schema": [*manifest["schema"], 9_000]}).encode()

    _rewrite(tmp_path / "b", tmp_path / "c", "manifest.json", newer)
    with pytest.raises(StoreError, match=r"has schema 9000.*upgrade Toolcrib"):
        restore_database(tmp_path / "c", postgres.database())


def test_a_backup_of_an_older_schema_is_upgraded(postgres: PostgresServer, tmp_path: Path) -> None:
    """Its tables are made as they were, filled, and then brought to this version."""
    old, empty = postgres.database(), postgres.database()

    async def make() -> None:
        connection = await asyncpg.connect(old)
        try:
            await apply_step(connection, migrations()[0])
            await connection.execute(
                "INSERT INTO sessions (session_id, born, created_at, settings, head_hash, fence)"
                " VALUES ('old', 1, 1.0, '{}', $1, 7)",
                bytes(32),
            )
        finally:
            await connection.close()

    asyncio.run(make())
    assert "has schema 1" in invoke("store", "migrate", "--check", "--store", old).stdout
    assert back_up_database(old, tmp_path / "b").schema == 1
    restore_database(tmp_path / "b", empty)

    assert invoke("store", "migrate", "--check", "--store", empty).exit_code == 0
    with PostgresStore(empty, key=KEY) as store:
        lease = store.acquire("old", create=False)
        assert lease.fence > 2**32
        write(store, lease, 2)
        check(store, "old")


def test_a_broken_store_is_not_backed_up(crib: str, tmp_path: Path) -> None:
    """A backup that verifies is worth something; one of a broken ledger is not taken for one."""
    run(crib, "UPDATE payloads SET payload = 'x' WHERE seq = 2")

    done = invoke("store", "backup", tmp_path / "b", "--store", crib)
    assert (done.exit_code, "does not verify" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_info_of_a_database_and_of_its_backup(crib: str, tmp_path: Path) -> None:
    """The same numbers of both."""
    invoke("store", "backup", tmp_path / "b", "--store", crib)
    facts = [
        json.loads(invoke("store", "info", "--store", store, "--json").stdout)
        for store in (crib, tmp_path / "b")
    ]
    assert [each["is_backup"] for each in facts] == [False, True]
    for each in facts:
        assert (each["sessions"], each["records"], each["open_calls"]) == (2, 6, 1)
    for store in (crib, tmp_path / "b"):
        shown = invoke("store", "info", "--store", store).stdout
        assert "sessions:   2" in shown
        assert "open calls: 1, 0 secrets" in shown


def test_each_backup_goes_where_it_came_from(crib: str, sqlite_path: Path, tmp_path: Path) -> None:
    """A backup of PostgreSQL is no SQLite file, and the other way round."""
    invoke("store", "backup", tmp_path / "b", "--store", crib)
    done = invoke("store", "restore", tmp_path / "b", "--store", sqlite_path)
    assert (done.exit_code, "--store postgresql://" in done.stderr) == (1, True)

    sqlite_path.write_bytes(b"SQLite format 3\0")
    done = invoke("store", "restore", sqlite_path, "--store", crib)
    assert (done.exit_code, "is no backup of a store on PostgreSQL" in done.stderr) == (1, True)


def test_a_database_without_tables_is_migrated(postgres_url: str) -> None:
    """--check changes nothing and says what there is to do; after it there is nothing."""
    checked = invoke("store", "migrate", "--check", "--store", postgres_url)
    assert (checked.exit_code, "has no tables yet" in checked.stdout) == (1, True)
    assert run(postgres_url, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []

    assert invoke("store", "migrate", "--store", postgres_url).exit_code == 0
    checked = invoke("store", "migrate", "--check", "--store", postgres_url)
    assert (checked.exit_code, "nothing to do" in checked.stdout) == (0, True)


def test_weeks_without_sessions_are_dropped(
    shared: PostgresStore, postgres_url: str, clock: FakeClock
) -> None:
    """Retention deletes whole sessions; the partitions of a week go with its last one. Other weeks,
    and this one, stay.
    """
    for at, session_id in ((10 * WEEK, "old"), (20 * WEEK, "kept"), (30 * WEEK, "new")):
        clock.now = at + 5.0
        lease = shared.acquire(session_id)
        effects = [CallOpened(open_call())] if session_id == "kept" else []
        write(shared, lease, 3, effects)
        shared.release(lease)
    clock.now = 30 * WEEK + 10.0
    whole = Retention(older_than=WEEK * 2, delete="sessions")

    assert prune(shared, whole, clock.now, PERSON).sessions == ("old",)

    left = {row[0] for row in run(postgres_url, "SELECT relname FROM pg_class WHERE relkind = 'r'")}
    assert partition_name("records", 10) not in left
    assert partition_name("payloads", 10) not in left
    for week in (20, 30):
        assert {partition_name(table, week) for table in ("records", "payloads")} <= left
    for session_id in ("kept", "new"):
        check(shared, session_id)


def test_weeks_that_somebody_reads_are_dropped_later(postgres_url: str, clock: FakeClock) -> None:
    """A backup may take hours, and retention does not fail because of it: a week whose partitions
    could not go is the first one to go the next time.
    """
    impatient = Timeouts(statement=0.5)
    with PostgresStore(postgres_url, clock=clock, timeouts=impatient) as store:
        for week in (10, 20):
            clock.now = week * WEEK + 5.0
            lease = store.acquire(f"s{week}")
            write(store, lease)
            store.release(lease)
        clock.now = 30 * WEEK
        whole = Retention(older_than=WEEK * 15, delete="sessions")

        async def while_somebody_reads() -> tuple[str, ...]:
            connection = await asyncpg.connect(postgres_url)
            try:
                async with connection.transaction():
                    await connection.fetch("SELECT 1 FROM records")
                    assert await asyncio.to_thread(store.drop_empty_weeks) == 0
                    pruned = await asyncio.to_thread(prune, store, whole, clock.now, PERSON)
                    return pruned.sessions
            finally:
                await connection.close()

        store.delete_session("s20")
        assert asyncio.run(while_somebody_reads()) == ("s10",)
        assert run(
            postgres_url, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhdetachpending"
        ) == [(partition_name("records", 20),)]

        assert store.drop_empty_weeks() == 4


def test_a_week_is_not_dropped_as_soon_as_it_is_over(
    shared: PostgresStore, postgres_url: str, clock: FakeClock
) -> None:
    """A session that was born in its last second may not have been committed yet."""
    clock.now = 20 * WEEK - 1.0
    shared.release(shared.acquire("s"))
    shared.delete_session("s")

    clock.now = 20 * WEEK + 60.0
    assert shared.drop_empty_weeks() == 0
    clock.now = 20 * WEEK + 2 * 3600.0
    assert shared.drop_empty_weeks() == 2


def test_upkeep_is_done_by_one_replica_once_a_minute(
    shared: PostgresStore, postgres_url: str, clock: FakeClock
) -> None:
    """Next week's partitions are there before the week begins, and expired values are gone. A
    replica that comes while another is at it, or just after, changes nothing.
    """
    clock.now = 40 * WEEK + 1.0
    shared.put_value(SharedValue("old", b"x", expires_at=clock.now + 5.0), after=None)
    shared.put_value(SharedValue("kept", b"x"), after=None)
    clock.now += 10.0
    names = "SELECT name FROM shared_values WHERE name !~ '^upkeep' ORDER BY 1"

    async def with_upkeep(work: Callable[[Upkeep], Coroutine[Any, Any, bool]]) -> bool:
        return await work(Upkeep(PostgresDatabase(postgres_url, Timeouts(), 1), clock))

    async def while_another_is_at_it(upkeep: Upkeep) -> bool:
        other = await asyncpg.connect(postgres_url)
        try:
            await other.execute("SELECT pg_advisory_lock($1)", UPKEEP_LOCK)
            return await upkeep.run()
        finally:
            await other.close()

    assert asyncio.run(with_upkeep(while_another_is_at_it)) is False
    assert run(postgres_url, names) == [("kept",), ("old",)]
    assert asyncio.run(with_upkeep(Upkeep.run)) is True
    assert run(postgres_url, names) == [("kept",)]
    for week in (week_of(clock.now), week_of(clock.now) + 1):
        assert run(postgres_url, "SELECT to_regclass($1)::text", partition_name("records", week))[0]

    shared.put_value(SharedValue("later", b"x", expires_at=clock.now + 5.0), after=None)
    clock.now += 20.0
    asyncio.run(with_upkeep(Upkeep.run))
    assert run(postgres_url, names) == [("kept",), ("later",)]
    clock.now += 60.0
    asyncio.run(with_upkeep(Upkeep.run))
    assert run(postgres_url, names) == [("kept",)]


def test_a_replica_keeps_the_tables_up_by_itself(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is to be scheduled: it begins with the beats by which the replica shows itself."""
    monkeypatch.setattr("toolcrib.store.postgres.upkeep._MINUTE", 0.0)
    next_week = partition_name("payloads", week_of(time.time()) + 1)
    with PostgresStore(postgres_url, lease_seconds=0.6, key=KEY) as store:
        store.join(None)
        deadline = time.monotonic() + PATIENCE
        while run(postgres_url, "SELECT to_regclass($1)::text", next_week) == [(None,)]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_turns_that_ended_long_ago_are_forgotten(
    shared: PostgresStore, postgres_url: str, clock: FakeClock
) -> None:
    """A day after their end; one that waits to be taken up is not."""
    clock.now = 40 * WEEK + 1.0
    for turn_id, session_id in (("t1", "over"), ("t2", "queued")):
        shared.release(shared.acquire(session_id))
        shared.queue_turn(
            QueuedTurn(turn_id, session_id, b"{}"), when_busy="reject", most_queued=1, by="ada"
        )
    [claimed] = shared.claim_turns(1, session_id="over")
    shared.settle_turn(claimed, replace(claimed.turn, state="ended", request=b"", outcome=b"{}"))

    def keep_up() -> list[str]:
        asyncio.run(Upkeep(PostgresDatabase(postgres_url, Timeouts(), 1), clock).run())
        return [row[0] for row in run(postgres_url, "SELECT turn_id FROM turns ORDER BY place")]

    clock.now += 3600.0
    assert keep_up() == ["t1", "t2"]
    clock.now += 24 * 3600.0
    assert keep_up() == ["t2"]


def _rewrite(source: Path, target: Path, member: str, change: Callable[[bytes], bytes]) -> None:
    """Copy an archive with one of its members changed."""
    with ZipFile(source) as archive, ZipFile(target, "w") as copy:
        for name in archive.namelist():
            data = archive.read(name)
            copy.writestr(name, change(data) if name == member else data)
