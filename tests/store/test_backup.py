"""Backups: taken while others write, whole or not there, and restored with what was open."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.facts import FakeClock, at_once, open_call, request, write
from tests.store.processes import child
from tests.store.test_migrations import make_version_2
from toolcrib.errors import StoreError
from toolcrib.store import SqliteStore
from toolcrib.store.backup import back_up, restore, schema_of, store_facts
from toolcrib.store.sqlite_schema import SCHEMA_VERSION
from toolcrib.store.store import ApprovalFiled, Artifact, ArtifactKept, CallOpened, Lease
from toolcrib.store.verification import verify_session

SECRET = b'{"token":"hush"}'


def fill(store: SqliteStore) -> Lease:
    """A session with an open call that holds a secret, a waiting approval and an artifact."""
    lease = store.acquire("one", owner="alice")
    secret = open_call("c1", SECRET, has_secrets=True)
    write(store, lease, 5, [CallOpened(secret), ApprovalFiled(request("a1", "one"))])
    write(store, lease, 1, [ArtifactKept(Artifact("art", "c2", "much text"))])
    return lease


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_store_in_use_is_backed_up_and_restored(sqlite: SqliteStore, sqlite_path: Path) -> None:
    """Ledgers, open calls with their secrets, approvals and artifacts are there again."""
    lease = fill(sqlite)
    backup, target = sqlite_path.with_name("b"), sqlite_path.with_name("restored.sqlite3")

    facts = back_up(sqlite_path, backup)
    write(sqlite, lease, 1)
    restore(backup, target)

    assert (facts.sessions, facts.records, facts.open_calls) == (1, 6, 1)
    with SqliteStore(target) as restored:
        assert verify_session(restored, "one").records == 6
        assert [call.arguments for call in restored.open_calls("one")] == [SECRET]
        assert restored.approval("a1") is not None
        assert restored.artifact("one", "art") == "much text"
        info = restored.session("one")
        assert (info.owner, info.is_open) == ("alice", False)


def test_backups_are_readable_by_their_owner_alone(sqlite: SqliteStore, sqlite_path: Path) -> None:
    """Whatever the umask is; the restored store and its vault too."""
    fill(sqlite)
    backup, target = sqlite_path.with_name("b"), sqlite_path.with_name("restored.sqlite3")
    old = os.umask(0)
    try:
        back_up(sqlite_path, backup)
        restore(backup, target)
    finally:
        os.umask(old)

    vault = Path(f"{target}-open")
    assert [mode(backup), mode(target), mode(vault)] == [0o600, 0o600, 0o700]
    assert [mode(file) for file in vault.iterdir()] == [0o600]


def test_a_restored_store_keeps_no_secret_in_the_database(
    sqlite: SqliteStore, sqlite_path: Path
) -> None:
    """Secrets go back into the vault; their bytes are overwritten in the file."""
    fill(sqlite)
    backup, target = sqlite_path.with_name("b"), sqlite_path.with_name("restored.sqlite3")
    back_up(sqlite_path, backup)
    restore(backup, target)

    assert b"hush" in backup.read_bytes()
    assert b"hush" not in target.read_bytes()


def test_nothing_is_overwritten(sqlite: SqliteStore, sqlite_path: Path) -> None:
    """Neither a backup nor a store takes the place of a file."""
    fill(sqlite)
    backup = sqlite_path.with_name("b")
    back_up(sqlite_path, backup)
    before = backup.read_bytes(), sqlite_path.read_bytes()

    with pytest.raises(StoreError, match="is there already"):
        back_up(sqlite_path, backup)
    with pytest.raises(StoreError, match="is there already"):
        restore(backup, sqlite_path)

    assert (backup.read_bytes(), sqlite_path.read_bytes()) == before


def test_a_backup_is_one_moment_while_others_write(sqlite_path: Path) -> None:
    """Every backup that is taken while commits go on verifies, with each ledger up to its head."""
    with SqliteStore(sqlite_path) as store:
        lease = store.acquire("busy")
        write(store, lease, 1)

        def work(number: int) -> None:
            if number:
                back_up(sqlite_path, sqlite_path.with_name(f"b{number}"))
            else:
                for _ in range(100):
                    write(store, lease, 3)

        at_once(3, work)
    for number in (1, 2):
        target = sqlite_path.with_name(f"r{number}.sqlite3")
        restore(sqlite_path.with_name(f"b{number}"), target)
        with SqliteStore(target) as restored:
            verify_session(restored, "busy")


def test_a_damaged_store_gives_no_backup(sqlite: SqliteStore, sqlite_path: Path) -> None:
    """A backup that would not verify is refused when it is made, not when it is needed."""
    fill(sqlite)
    with closing(sqlite3.connect(sqlite_path)) as connection, connection:
        connection.execute("UPDATE records SET kind = 'x' WHERE seq = 2")
    folder = {path.name for path in sqlite_path.parent.iterdir()}

    with pytest.raises(StoreError, match="session 'one' does not verify: record 2 was changed"):
        back_up(sqlite_path, sqlite_path.with_name("b"))

    assert {path.name for path in sqlite_path.parent.iterdir()} == folder


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("UPDATE payloads SET payload = 'x'", "does not verify"),
        ("PRAGMA user_version = -99", "has schema 99"),
        ("PRAGMA user_version = 3", "this is no backup"),
        ("UPDATE vault_files SET name = '../../x'", "is no name in a vault"),
    ],
)
def test_a_changed_backup_is_not_restored(
    sqlite: SqliteStore, sqlite_path: Path, change: str, fault: str
) -> None:
    """It is checked again before a store is made of it."""
    fill(sqlite)
    backup, target = sqlite_path.with_name("b"), sqlite_path.with_name("restored.sqlite3")
    back_up(sqlite_path, backup)
    with closing(sqlite3.connect(backup)) as connection, connection:
        connection.execute(change)

    with pytest.raises(StoreError, match=fault):
        restore(backup, target)
    assert not target.exists()


def test_a_backup_is_not_opened_as_a_store(sqlite: SqliteStore, sqlite_path: Path) -> None:
    """Its open calls would be without their secrets; the error says what to do."""
    fill(sqlite)
    backup = sqlite_path.with_name("b")
    back_up(sqlite_path, backup)

    with pytest.raises(StoreError, match="is a backup; make a store of it: toolcrib store restore"):
        SqliteStore(backup)


def test_a_store_of_the_version_before_is_backed_up_as_it_is(sqlite_path: Path) -> None:
    """The backup before an upgrade has the old schema; restored, it is upgraded when opened."""
    make_version_2(sqlite_path)
    backup, target = sqlite_path.with_name("b"), sqlite_path.with_name("restored.sqlite3")

    assert back_up(sqlite_path, backup).schema == 2
    restore(backup, target)

    assert (schema_of(sqlite_path), schema_of(target)) == (2, 2)
    with SqliteStore(target) as restored:
        verify_session(restored, "alice:shop")
    assert schema_of(target) == SCHEMA_VERSION


def test_facts_of_a_store_and_of_its_backup(sqlite: SqliteStore, sqlite_path: Path) -> None:
    """Both are counted without being changed."""
    fill(sqlite)
    back_up(sqlite_path, sqlite_path.with_name("b"))

    for path, is_backup in ((sqlite_path, False), (sqlite_path.with_name("b"), True)):
        facts = store_facts(path)
        assert (facts.sessions, facts.records, facts.open_calls) == (1, 6, 1)
        assert (facts.pending_approvals, facts.artifacts, facts.vault_files) == (1, 1, 1)
        assert (facts.is_backup, facts.schema) == (is_backup, SCHEMA_VERSION)


KILLED_AT = {
    "before it is finished": "_finish_backup",
    "before it is checked": "_checked",
    "before it has its name": "_sync",
}


@pytest.mark.crash
@pytest.mark.parametrize("place", KILLED_AT.values(), ids=KILLED_AT)
@pytest.mark.parametrize("work", ["back_up", "restore"])
def test_a_killed_backup_leaves_nothing_half(work: str, place: str, sqlite_path: Path) -> None:
    """The name appears with the whole or not at all, and the next try erases what was left."""
    if (work, place) == ("restore", "_finish_backup"):
        place = "_put_back"
    with SqliteStore(sqlite_path, clock=FakeClock()) as store:
        fill(store)
    backup, target = sqlite_path.with_name("b"), sqlite_path.with_name("restored.sqlite3")
    source, out, again = (
        (sqlite_path, backup, back_up) if work == "back_up" else (backup, target, restore)
    )
    if work == "restore":
        back_up(sqlite_path, backup)
    script = f"""
from pathlib import Path
from toolcrib.store import backup, whole_file
def stop(*_):
    tell("here")
    wait()
{"whole_file" if place == "_sync" else "backup"}.{place} = stop
backup.{work}(Path({str(source)!r}), Path({str(out)!r}))
"""
    with child(sqlite_path, script) as process:
        assert process.hear() == "here"
        process.kill()

    assert not out.exists()
    assert [*out.parent.glob(f".{out.name}.*.partial")]
    assert again(source, out).records == 6
    assert not [*out.parent.glob(f".{out.name}.*.partial")]


def test_a_backup_that_another_process_writes_is_left_alone(
    sqlite: SqliteStore, sqlite_path: Path
) -> None:
    """Only what nobody writes any more is erased."""
    fill(sqlite)
    target = sqlite_path.with_name("b")
    script = f"""
from pathlib import Path
from toolcrib.store import backup
check = backup._checked
def stop(*about):
    tell("here")
    wait()
    return check(*about)
backup._checked = stop
try:
    backup.back_up(Path({str(sqlite_path)!r}), Path({str(target)!r}))
except StoreError as error:
    tell(str(error))
"""
    with child(sqlite_path, script) as process:
        assert process.hear() == "here"
        back_up(sqlite_path, target)
        assert len([*target.parent.glob(".b.*.partial")]) == 1
        process.go_on()
        assert "is there already" in process.hear()
