"""What lies on the disk: who may read it, what it never holds, and what happens when it breaks."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.facts import PERSON, FakeClock, delete_payloads, open_call, request, write
from tests.store.processes import child
from toolcrib.approval.decision import Approve, Decided
from toolcrib.errors import LedgerBroken, StoreError
from toolcrib.ledger.event_kinds import ALL_EVENTS
from toolcrib.ledger.record import Head, verify
from toolcrib.store import SqliteStore
from toolcrib.store.record_marks import MARKED_KINDS
from toolcrib.store.sqlite_reader import records_statement
from toolcrib.store.store import ApprovalFiled, ApprovalUsed, CallClosed, CallOpened

SECRET = "hunter2-correct-horse"


@pytest.fixture
def no_umask() -> Iterator[None]:
    old = os.umask(0)
    yield
    os.umask(old)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def vault_files(path: Path) -> list[Path]:
    folder = Path(f"{path}-open")
    return sorted(folder.iterdir()) if folder.exists() else []


def files_with(secret: str, folder: Path) -> list[str]:
    """Files below `folder` that hold `secret`; by another process, because closing a database
    file in this one would drop SQLite's locks on it.
    """
    found = subprocess.run(
        ["grep", "-rlaF", secret, str(folder)], capture_output=True, text=True, check=False
    )
    return found.stdout.splitlines()


class TestModes:
    @pytest.mark.usefixtures("no_umask")
    def test_files_are_for_their_owner_only(self, sqlite_path: Path) -> None:
        """Database, log, index and vault are owner-only from the start, whatever the umask."""
        with SqliteStore(sqlite_path) as store:
            secret = open_call(arguments=b'{"token":"x"}', has_secrets=True)
            write(store, store.acquire("s"), 1, [CallOpened(secret)])

            for name in ("", "-wal", "-shm"):
                assert mode(Path(f"{sqlite_path}{name}")) == 0o600
            assert mode(Path(f"{sqlite_path}-open")) == 0o700
            assert [mode(file) for file in vault_files(sqlite_path)] == [0o600]

    def test_a_missing_folder_is_not_made(self, tmp_path: Path) -> None:
        """A mistyped path is an error that names it."""
        with pytest.raises(StoreError, match=r"nowhere/x\.sqlite3 cannot be created"):
            SqliteStore(tmp_path / "nowhere" / "x.sqlite3")


class TestSecrets:
    def test_secrets_of_an_open_call_are_not_in_the_database(
        self, sqlite_path: Path, tmp_path: Path
    ) -> None:
        """Arguments with secrets lie in an owner-only file while the call is open, then nowhere."""
        call = open_call(arguments=f'{{"token":"{SECRET}"}}'.encode(), has_secrets=True)
        with SqliteStore(sqlite_path) as store:
            lease = store.acquire("s")
            write(store, lease, 1, [CallOpened(call)])

            assert files_with(SECRET, tmp_path) == [str(file) for file in vault_files(sqlite_path)]
            assert store.open_calls("s") == [call]

            write(store, lease, 1, [CallClosed("c1")])

            assert store.open_calls("s") == []
            assert vault_files(sqlite_path) == []
            assert files_with(SECRET, tmp_path) == []
        assert files_with(SECRET, tmp_path) == []

    def test_edited_arguments_are_not_in_the_database(
        self, sqlite_path: Path, tmp_path: Path
    ) -> None:
        """What a person typed into an approval goes the same way."""
        edited = Approve({"token": SECRET})
        with SqliteStore(sqlite_path) as store:
            lease = store.acquire("s")
            write(store, lease, 1, [ApprovalFiled(request())])
            store.decide(Decided("a1", "d1", edited, PERSON, 2.0))

            assert files_with(SECRET, tmp_path) == [str(file) for file in vault_files(sqlite_path)]
            filed = store.approval("a1")
            assert filed is not None
            assert filed.decided is not None
            assert filed.decided.decision == edited

            write(store, lease, 1, [ApprovalUsed("a1")])

            assert vault_files(sqlite_path) == []
            assert files_with(SECRET, tmp_path) == []

    def test_a_replaced_call_leaves_one_file(self, sqlite_path: Path) -> None:
        """New arguments for an open call take the place of the old ones."""
        with SqliteStore(sqlite_path) as store:
            lease = store.acquire("s")
            for arguments in (b'{"token":"1"}', b'{"token":"2"}'):
                call = open_call(arguments=arguments, has_secrets=True)
                write(store, lease, 1, [CallOpened(call)])

            assert store.open_calls("s")[0].arguments == b'{"token":"2"}'
            assert len(vault_files(sqlite_path)) == 1

    def test_a_refused_commit_leaves_no_file(self, sqlite_path: Path) -> None:
        """What was not committed is not kept beside the database either."""
        with SqliteStore(sqlite_path) as store:
            lease = store.acquire("s")
            filed = ApprovalFiled(request())
            write(store, lease, 1, [filed])

            with pytest.raises(StoreError):
                write(store, lease, 1, [CallOpened(open_call(has_secrets=True)), filed])

            assert vault_files(sqlite_path) == []

    @pytest.mark.wire
    def test_a_killed_process_leaves_its_open_calls_only(self, sqlite_path: Path) -> None:
        """Opening the store sweeps files that no open call names and keeps the others."""
        script = """
store = SqliteStore(path)
lease = store.acquire("s")
write(store, lease, 1, [CallOpened(open_call("kept", b'{"token":"1"}', has_secrets=True))])
store._vault.put(b"written before a commit that never came")
os.kill(os.getpid(), signal.SIGKILL)
"""
        with child(sqlite_path, script) as killed:
            assert killed.end() == -signal.SIGKILL
        assert len(vault_files(sqlite_path)) == 2

        with SqliteStore(sqlite_path) as store:
            assert len(vault_files(sqlite_path)) == 1
            assert [call.arguments for call in store.open_calls("s")] == [b'{"token":"1"}']

    def test_a_file_that_cannot_be_erased_is_logged(
        self, sqlite_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The call ends all the same; whoever runs the store learns what is left lying."""
        with SqliteStore(sqlite_path) as store:
            lease = store.acquire("s")
            write(store, lease, 1, [CallOpened(open_call(has_secrets=True))])
            (file,) = vault_files(sqlite_path)
            file.unlink()
            file.mkdir()

            write(store, lease, 1, [CallClosed("c1")])

            assert store.open_calls("s") == []
        assert f"{file} could not be erased" in caplog.text

    def test_a_copy_without_its_vault_says_so(self, sqlite_path: Path, tmp_path: Path) -> None:
        """Open calls whose arguments were not copied along are an error, not empty calls."""
        with SqliteStore(sqlite_path) as store:
            lease = store.acquire("s")
            write(store, lease, 1, [CallOpened(open_call(has_secrets=True))])
        shutil.copy(sqlite_path, tmp_path / "copy.sqlite3")

        with (
            SqliteStore(tmp_path / "copy.sqlite3") as copy,
            pytest.raises(StoreError, match="needs the files beside it too"),
        ):
            copy.open_calls("s")

    def test_deleted_payloads_leave_the_disk(self, sqlite_path: Path, tmp_path: Path) -> None:
        """Deleting payloads clears them from the database and from its log."""
        with SqliteStore(sqlite_path) as store:
            lease = store.acquire("s")
            write(store, lease, 50)
            assert files_with('"name":"read_file"', tmp_path) != []

            delete_payloads(store, lease)

            assert files_with('"name":"read_file"', tmp_path) == []
            assert verify(store.records("s")) == store.head("s")

    def test_a_deleted_session_leaves_the_disk(self, sqlite_path: Path, tmp_path: Path) -> None:
        """Deleting a session clears its rows, its vault and the log."""
        with SqliteStore(sqlite_path) as store:
            lease = store.acquire("a-session-to-forget")
            write(store, lease, 5, [CallOpened(open_call(has_secrets=True))])
            store.release(lease)

            store.delete_session("a-session-to-forget")

            assert files_with("a-session-to-forget", tmp_path) == []
            assert vault_files(sqlite_path) == []


class TestForeignFiles:
    def test_a_file_of_a_newer_version_is_refused(self, sqlite_path: Path) -> None:
        """A schema this version does not know is not touched."""
        SqliteStore(sqlite_path).close()
        with closing(sqlite3.connect(sqlite_path)) as connection:
            connection.execute("PRAGMA user_version=99")

        with pytest.raises(StoreError, match=r"has schema 99.*upgrade Toolcrib"):
            SqliteStore(sqlite_path)

    def test_a_file_that_is_no_database_is_refused(self, sqlite_path: Path) -> None:
        """Somebody's text file is neither read nor overwritten."""
        sqlite_path.write_text("Dear diary, " * 100)

        with pytest.raises(StoreError, match="is not an SQLite database"):
            SqliteStore(sqlite_path)

        assert sqlite_path.read_text().startswith("Dear diary")

    def test_a_database_of_another_program_is_refused(self, sqlite_path: Path) -> None:
        """An SQLite file with other tables is left alone."""
        with closing(sqlite3.connect(sqlite_path)) as connection:
            connection.execute("CREATE TABLE bookmarks (url TEXT)")

        with pytest.raises(StoreError, match="database of another program"):
            SqliteStore(sqlite_path)

    def test_a_fact_that_cannot_be_read_is_not_quoted(
        self, sqlite: SqliteStore, sqlite_path: Path
    ) -> None:
        """A damaged fact is an error whose text does not repeat the data."""
        write(sqlite, sqlite.acquire("s"), 1, [CallOpened(open_call())])
        with closing(sqlite3.connect(sqlite_path)) as connection, connection:
            connection.execute("UPDATE open_calls SET fact = ?", (f'{{"x":"{SECRET}"}}'.encode(),))

        with pytest.raises(StoreError, match="a stored OpenCall cannot be read") as raised:
            sqlite.open_calls("s")

        assert SECRET not in str(raised.value)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Head]:
    """A store whose process was killed with everything still in the write-ahead log."""
    path = tmp_path_factory.mktemp("killed") / "s.sqlite3"
    script = """
store = SqliteStore(path)
lease = store.acquire("s")
for _ in range(12):
    write(store, lease, 2, [CallOpened(open_call()), CallClosed("c1")])
tell(str(store.head("s")))
os.kill(os.getpid(), signal.SIGKILL)
"""
    with child(path, script) as process:
        head = Head.parse(process.hear())
        process.end()
    return path, head


class TestDamage:
    """No damage is mistaken for a shorter or an empty ledger."""

    @pytest.mark.parametrize("cut", [1, 24, 100, 4096, 4120, 8240, 20_000, 40_000])
    def test_a_torn_log_loses_whole_commits_only(
        self, killed: tuple[Path, Head], tmp_path: Path, cut: int
    ) -> None:
        """With bytes missing from the log the rest opens and verifies, and a head kept elsewhere
        tells that the tail is gone.
        """
        path = copy_store(killed[0], tmp_path)
        wal = Path(f"{path}-wal")
        os.truncate(wal, wal.stat().st_size - cut)

        with SqliteStore(path) as store:
            left = verify(store.records("s"))
            assert left == store.head("s")
            assert left is not None
            assert left.seq < killed[1].seq
            assert left.seq % 2 == 0
            with pytest.raises(LedgerBroken, match="its tail was cut off"):
                verify(store.records("s"), killed[1])
            write(store, store.acquire("s"))

    def test_a_whole_log_is_recovered_whole(
        self, killed: tuple[Path, Head], tmp_path: Path
    ) -> None:
        """A SIGKILL alone costs nothing that was committed."""
        with SqliteStore(copy_store(killed[0], tmp_path)) as store:
            assert verify(store.records("s"), killed[1]) == killed[1]

    def test_a_changed_page_is_an_error(self, tmp_path: Path) -> None:
        """Whatever page is overwritten, what can still be read is either complete or an error."""
        whole = tmp_path / "whole.sqlite3"
        with SqliteStore(whole) as store:
            write(store, store.acquire("s"), 60)
            head = store.head("s")
        assert head is not None
        data = whole.read_bytes()
        noticed = 0
        for start in range(0, len(data), 4096):
            for filler in (b"\0", b"\xff"):
                damaged = tmp_path / "damaged.sqlite3"
                damaged.write_bytes(data[:start] + filler * 4096 + data[start + 4096 :])
                noticed += not reads_whole(damaged, head)

        assert noticed > len(data) / 4096 / 2

    def test_a_cut_database_is_an_error(self, tmp_path: Path) -> None:
        """A database that lost its end, or everything, does not pass for a shorter ledger."""
        whole = tmp_path / "whole.sqlite3"
        with SqliteStore(whole) as store:
            write(store, store.acquire("s"), 60)
            head = store.head("s")
        assert head is not None
        data = whole.read_bytes()
        for size in range(0, len(data), 4096):
            damaged = tmp_path / "damaged.sqlite3"
            damaged.write_bytes(data[:size])

            assert not reads_whole(damaged, head)

    def test_a_lost_tail_is_noticed_when_the_session_is_opened(
        self, sqlite: SqliteStore, sqlite_path: Path
    ) -> None:
        """A ledger that does not end where its session says is not written on."""
        lease = sqlite.acquire("s")
        write(sqlite, lease, 5)
        sqlite.release(lease)
        with closing(sqlite3.connect(sqlite_path)) as connection, connection:
            connection.execute("DELETE FROM records WHERE seq > 3")

        with pytest.raises(LedgerBroken, match="should end at record 5"):
            sqlite.acquire("s")

    @pytest.mark.parametrize(
        "edit",
        [
            "UPDATE payloads SET payload = replace(payload, 'read_file', 'wipe_disk')",
            "UPDATE payloads SET payload = CAST(replace(payload, 'file', 'disk') AS BLOB)",
            "UPDATE records SET kind = 'tool.invoked' WHERE seq = 3",
            "UPDATE records SET at = at + 1 WHERE seq = 3",
            "UPDATE records SET call_id = NULL WHERE seq = 3",
            "UPDATE records SET hash = previous WHERE seq = 3",
            "DELETE FROM records WHERE seq = 3",
        ],
    )
    def test_an_edit_by_hand_is_found(
        self, sqlite: SqliteStore, sqlite_path: Path, edit: str
    ) -> None:
        """Whoever edits the file with SQL breaks the chain at that record."""
        write(sqlite, sqlite.acquire("s"), 5)
        with closing(sqlite3.connect(sqlite_path)) as connection, connection:
            connection.execute(edit)

        with pytest.raises(LedgerBroken):
            verify(sqlite.records("s"))


def test_full_synchronisation_can_be_asked_for(sqlite_path: Path, clock: FakeClock) -> None:
    """With `synchronous="full"` the same rules hold, the vault included."""
    with SqliteStore(sqlite_path, clock=clock, synchronous="full") as store:
        lease = store.acquire("s")
        write(store, lease, 2, [CallOpened(open_call(has_secrets=True))])

        assert verify(store.records("s")) == store.head("s")
        assert store.open_calls("s") == [open_call(has_secrets=True)]


def copy_store(path: Path, folder: Path) -> Path:
    for name in ("", "-wal"):
        shutil.copy(f"{path}{name}", folder / f"{path.name}{name}")
    return folder / path.name


def reads_whole(path: Path, head: Head) -> bool:
    """Whether everything can be read; an error counts as not, anything less fails the test."""
    try:
        with SqliteStore(path) as store:
            assert verify(store.records("s"), store.head("s")) == head
            assert all(record.payload is not None for record in store.records("s"))
    except StoreError:
        return False
    finally:
        for name in ("-wal", "-shm"):
            Path(f"{path}{name}").unlink(missing_ok=True)
    return True


@pytest.mark.parametrize("newest_first", [False, True])
def test_marked_records_are_found_without_reading_the_others(
    tmp_path: Path, newest_first: bool
) -> None:
    """A turn that follows looks for a few kinds of records, in a ledger of any length."""
    assert {kind.kind for kind in ALL_EVENTS}.issuperset(MARKED_KINDS)
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    query = records_statement(MARKED_KINDS, newest_first=newest_first)
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", ("s", 0, 9, 1)).fetchall()

    tables = [step for *_, step in plan if "records" in step or step.startswith("SEARCH")]
    assert sum("marked_records (session_id=? AND kind=?" in step for step in tables) == len(
        MARKED_KINDS
    )
    assert not [step for step in tables if step.startswith("SCAN records")]
