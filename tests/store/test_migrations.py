"""Files of earlier versions: what was written then is read now."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.facts import FakeClock, open_call, write
from toolcrib.errors import StoreError
from toolcrib.ledger.events import SessionOpened
from toolcrib.ledger.record import GENESIS, seal, verify
from toolcrib.store import SqliteStore, sqlite_schema
from toolcrib.store.call_query import CallQuery
from toolcrib.store.codec import encode
from toolcrib.store.verification import verify_session

VERSION_1 = """
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    created_at REAL NOT NULL,
    settings   BLOB NOT NULL,
    head_seq   INTEGER NOT NULL,
    head_hash  TEXT NOT NULL,
    fence      INTEGER NOT NULL,
    holder     TEXT,
    expires_at REAL NOT NULL
);
CREATE TABLE records (
    id             INTEGER PRIMARY KEY,
    session_id     TEXT NOT NULL,
    seq            INTEGER NOT NULL,
    kind           TEXT NOT NULL,
    at             REAL NOT NULL,
    call_id        TEXT,
    payload_digest TEXT NOT NULL,
    previous       TEXT NOT NULL,
    hash           TEXT NOT NULL,
    UNIQUE (session_id, seq)
);
CREATE TABLE payloads (
    id      INTEGER PRIMARY KEY REFERENCES records (id),
    payload BLOB NOT NULL
);
CREATE TABLE open_calls (
    opened     INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    call_id    TEXT NOT NULL,
    fact       BLOB,
    vault      TEXT,
    UNIQUE (session_id, call_id)
);
CREATE INDEX open_calls_in_vault ON open_calls (session_id, call_id, vault) WHERE vault IS NOT NULL;
CREATE TABLE approvals (
    filed       INTEGER PRIMARY KEY,
    approval_id TEXT NOT NULL UNIQUE,
    session_id  TEXT NOT NULL,
    digest      TEXT NOT NULL,
    state       TEXT NOT NULL,
    request     BLOB NOT NULL,
    decided     BLOB,
    vault       TEXT
);
CREATE INDEX approvals_by_session ON approvals (session_id, state);
CREATE INDEX approvals_by_state ON approvals (state);
CREATE INDEX edits_in_vault ON approvals (approval_id, session_id, vault) WHERE vault IS NOT NULL;
CREATE TABLE grants (
    made       INTEGER PRIMARY KEY,
    grant_id   TEXT NOT NULL UNIQUE,
    tool_id    TEXT NOT NULL,
    session_id TEXT,
    fact       BLOB NOT NULL
);
CREATE INDEX grants_by_tool ON grants (tool_id);
CREATE TABLE artifacts (
    session_id  TEXT NOT NULL,
    artifact_id TEXT NOT NULL,
    call_id     TEXT NOT NULL,
    text        TEXT NOT NULL,
    PRIMARY KEY (session_id, artifact_id)
);
CREATE TABLE fence_floor (fence INTEGER NOT NULL);
INSERT INTO fence_floor VALUES (0);
"""
"""The layout of version 1, as that version wrote it."""


def make_version_1(path: Path) -> None:
    """A file of version 1 with one closed session, `old`, of one record."""
    opened = seal(SessionOpened(session_id="old", at=1.0, fence=1), 1, GENESIS)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(VERSION_1)
        connection.execute(
            "INSERT INTO sessions VALUES ('old', 1.0, '{}', 1, ?, 1, NULL, 0)", (opened.hash,)
        )
        connection.execute(
            "INSERT INTO records VALUES (1, 'old', 1, ?, 1.0, NULL, ?, ?, ?)",
            (opened.kind, opened.payload_digest, opened.previous, opened.hash),
        )
        connection.execute("INSERT INTO payloads VALUES (1, ?)", (opened.payload,))
        connection.execute("PRAGMA user_version=1")


VERSION_2 = Path(__file__).parent / "version_2.sql"
"""A file that version 2 wrote, with calls of every end, an approval that waits, a prompt, and a
session whose payloads were deleted.
"""


def make_version_2(path: Path) -> None:
    """The file of version 2, as that version left it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(VERSION_2.read_text("utf-8"))


def test_a_file_of_version_2_gets_its_index_of_calls(sqlite_path: Path) -> None:
    """Every call of its ledgers is listed with who asked, how it ended and who decided."""
    make_version_2(sqlite_path)
    assert version_of(sqlite_path) == 2

    with SqliteStore(sqlite_path) as store:
        rows = store.calls(CallQuery(kind=None, oldest_first=True)).items
        verified = [verify_session(store, name) for name in ("alice:shop", "bob:gone")]

    assert [(row.tool or row.model, row.status, row.decision, row.principal) for row in rows] == [
        ("double", "completed", None, "alice"),
        ("double", "failed", None, "alice"),
        ("pay", "completed", "allowed", "alice"),
        ("pay", "denied", "denied", "alice"),
        ("pay", "completed", "answered", "alice"),
        ("pay", "completed", "edited", "alice"),
        ("pay", "waiting", None, "alice"),
        ("gpt-5.1", "completed", None, "alice"),
        ("double", "completed", None, "bob"),
    ]
    assert {row.owner for row in rows} == {"alice", "bob"}
    assert [each.records for each in verified] == [22, 6]
    assert version_of(sqlite_path) == sqlite_schema.SCHEMA_VERSION == 8


def test_a_file_of_version_3_gets_its_index_of_rare_records(sqlite_path: Path) -> None:
    """The ledgers and the index of calls stay as they are."""
    make_version_2(sqlite_path)
    with SqliteStore(sqlite_path) as store:
        before = store.calls(CallQuery(kind=None)).items
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        undo_version_7(connection)
        connection.execute("DROP INDEX rare_records")
        undo_version_5(connection)
        connection.execute("PRAGMA user_version=3")

    with SqliteStore(sqlite_path) as store:
        deleted = list(store.records("bob:gone", kinds=["session.payloads_deleted"]))
        after = store.calls(CallQuery(kind=None)).items

    assert (len(deleted), after) == (1, before)
    assert version_of(sqlite_path) == sqlite_schema.SCHEMA_VERSION


def undo_version_7(connection: sqlite3.Connection) -> None:
    connection.execute("DROP INDEX calls_by_session")
    connection.execute("DROP INDEX marked_records")
    connection.execute("CREATE INDEX rare_records ON records (session_id, seq)")


def undo_version_5(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE summaries")
    connection.execute("DROP INDEX sessions_by_time")
    connection.execute("DROP INDEX approvals_in_order")
    connection.execute("DROP INDEX approvals_by_tool")


def test_a_file_of_version_4_gets_its_titles_and_counts(sqlite_path: Path) -> None:
    """They are those that the same ledgers have when they are indexed record by record."""
    make_version_2(sqlite_path)
    with SqliteStore(sqlite_path) as store:
        before = store.summaries(["alice:shop", "bob:gone"])
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        undo_version_7(connection)
        undo_version_5(connection)
        connection.execute("PRAGMA user_version=4")

    with SqliteStore(sqlite_path) as store:
        after = store.summaries(["alice:shop", "bob:gone"])

    assert after == before
    assert (after["alice:shop"].calls, after["alice:shop"].failures) == (7, 2)
    assert after["bob:gone"].title == "double"


def test_a_waiting_call_of_version_2_goes_on(sqlite_path: Path) -> None:
    """Open calls, approvals and artifacts of the file are there after the upgrade."""
    make_version_2(sqlite_path)

    with SqliteStore(sqlite_path) as store:
        (call,) = store.open_calls("alice:shop")
        (filed,) = store.approvals(state="pending").items
        assert (call.state, filed.request.call_id) == ("waiting", call.call_id)


def test_a_newer_file_is_refused(sqlite_path: Path) -> None:
    """A program that is older than the file says so and changes nothing."""
    make_version_2(sqlite_path)
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version={sqlite_schema.SCHEMA_VERSION + 1}")
    before = sqlite_path.read_bytes()

    with pytest.raises(StoreError, match="upgrade Toolcrib to open it"):
        SqliteStore(sqlite_path)

    assert sqlite_path.read_bytes() == before


def layout(path: Path) -> set[tuple[str, str, str]]:
    """Every column and index of a file; the order of columns does not count."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        columns = {
            (table, *column)
            for (table,) in tables.fetchall()
            for column in connection.execute(
                "SELECT name, type FROM pragma_table_info(?)", (table,)
            )
        }
        indices = connection.execute(
            "SELECT 'index', name, sql FROM sqlite_master WHERE sql LIKE '%INDEX%'"
        )
        return columns | set(indices.fetchall())


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_a_file_of_version_1_is_migrated_when_it_is_opened(sqlite_path: Path) -> None:
    """Its sessions are there, its ledger verifies, and it goes on."""
    make_version_1(sqlite_path)

    with SqliteStore(sqlite_path, clock=FakeClock()) as store:
        assert [info.session_id for info in store.sessions().items] == ["old"]
        before = verify(store.records("old"))
        lease = store.acquire("old", create=False)
        write(store, lease, 1)
        after = verify(store.records("old"), before)

    assert after is not None
    assert after.seq == 2
    assert version_of(sqlite_path) == sqlite_schema.SCHEMA_VERSION


def test_an_open_call_of_version_1_keeps_its_asker(sqlite_path: Path) -> None:
    """The principal moved into the caller; the session of such a file belongs to the process."""
    make_version_1(sqlite_path)
    fact = json.loads(encode(open_call()))
    del fact["caller"]
    fact |= {"principal": "ann", "transport": "http"}
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO open_calls (session_id, call_id, fact) VALUES ('old', 'c1', ?)",
            (json.dumps(fact).encode(),),
        )

    with SqliteStore(sqlite_path, clock=FakeClock()) as store:
        (call,) = store.open_calls("old")
        assert (call.caller.principal, call.caller.transport) == ("ann", "http")
        assert store.session("old").owner is None


@pytest.mark.parametrize("make", [make_version_1, make_version_2])
def test_a_migrated_file_is_laid_out_like_a_new_one(
    make: Callable[[Path], None], sqlite_path: Path, tmp_path: Path
) -> None:
    """No column and no index is missing from either."""
    make(sqlite_path)
    SqliteStore(sqlite_path).close()
    SqliteStore(tmp_path / "new.sqlite3").close()

    assert layout(sqlite_path) == layout(tmp_path / "new.sqlite3")


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All steps or none: a file is never between two versions."""
    make_version_1(sqlite_path)
    before = layout(sqlite_path)
    broken = (VERSION_1, "CREATE TABLE half (done TEXT); CREATE NONSENSE")
    monkeypatch.setattr(sqlite_schema, "_MIGRATIONS", broken)

    with pytest.raises(StoreError, match="cannot be used"):
        SqliteStore(sqlite_path)

    assert layout(sqlite_path) == before
    assert version_of(sqlite_path) == 1
