"""The SQLite file: how it is laid out, created, recognised and opened."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolcrib.errors import StoreError
from toolcrib.store.record_marks import MARKED_LIST

Synchronous = Literal["normal", "starts", "full"]
"""What waits for the disk: nothing, the starts of calls that may have effects, or every commit."""

_VERSION_1 = """
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

_VERSION_2 = """
ALTER TABLE sessions ADD COLUMN owner TEXT;
CREATE INDEX sessions_by_owner ON sessions (owner, created_at);
UPDATE open_calls SET fact = CAST(json_set(CAST(fact AS TEXT), '$.caller', json_object(
    'principal', json_extract(CAST(fact AS TEXT), '$.principal'),
    'transport', json_extract(CAST(fact AS TEXT), '$.transport')
)) AS BLOB) WHERE fact IS NOT NULL;
ALTER TABLE approvals ADD COLUMN deadline REAL;
ALTER TABLE approvals ADD COLUMN ballot BLOB;
UPDATE approvals SET deadline = json_extract(CAST(request AS TEXT), '$.deadline');
CREATE INDEX approvals_by_deadline ON approvals (deadline)
    WHERE state = 'pending' AND deadline IS NOT NULL;
-- Grants of version 1 name nobody and are bound to less than what runs, so people are asked again
DELETE FROM grants;
ALTER TABLE grants ADD COLUMN expires_at REAL;
CREATE INDEX grants_by_expiry ON grants (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE keys (
    principal     TEXT NOT NULL,
    operation     TEXT NOT NULL,
    key           TEXT NOT NULL,
    params_digest TEXT NOT NULL,
    session_id    TEXT NOT NULL,
    created_at    REAL NOT NULL,
    after_turn    INTEGER NOT NULL,
    outcome       BLOB,
    PRIMARY KEY (principal, operation, key)
) WITHOUT ROWID;
CREATE INDEX keys_by_session ON keys (session_id);
CREATE INDEX ended_calls ON records (session_id, call_id) WHERE kind = 'tool.invoked';
"""

_FILTERED = (
    "at, id, kind, status, owner, principal, tool, source, model, failure, decision, decided_by,"
    " approver, session, nanos"
)
"""What queries of calls filter by: every index has it all, so that none reads the table."""

_VERSION_3 = f"""
CREATE TABLE names (
    id   INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (kind, name)
);
CREATE TABLE calls (
    id            INTEGER PRIMARY KEY,
    session       INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    last_seq      INTEGER NOT NULL,
    kind          INTEGER NOT NULL,
    at            REAL NOT NULL,
    status        INTEGER NOT NULL,
    call_id       TEXT,
    owner         INTEGER,
    principal     INTEGER,
    transport     INTEGER,
    tool          INTEGER,
    source        INTEGER,
    model         INTEGER,
    failure       INTEGER,
    decision      INTEGER,
    decided_by    INTEGER,
    approver      INTEGER,
    duration      REAL NOT NULL,
    waited        REAL NOT NULL,
    parent        TEXT,
    turn          INTEGER NOT NULL,
    input_tokens  INTEGER,
    output_tokens INTEGER,
    nanos         INTEGER,
    prices        INTEGER
);
CREATE INDEX calls_by_time ON calls ({_FILTERED});
CREATE INDEX calls_by_tool ON calls (tool, {_FILTERED}) WHERE tool IS NOT NULL;
CREATE INDEX calls_by_owner ON calls (owner, {_FILTERED}) WHERE owner IS NOT NULL;
CREATE INDEX calls_by_principal ON calls (principal, {_FILTERED}) WHERE principal IS NOT NULL;
CREATE INDEX calls_by_approver ON calls (approver, {_FILTERED}) WHERE approver IS NOT NULL;
CREATE INDEX calls_by_status ON calls (status, {_FILTERED}) WHERE status <> 0;
CREATE INDEX calls_by_cost ON calls ({_FILTERED}) WHERE nanos IS NOT NULL;
CREATE INDEX calls_by_model ON calls (model, {_FILTERED}) WHERE model IS NOT NULL;
CREATE INDEX calls_open ON calls (session, call_id) WHERE status IN (3, 4, 5, 6);
CREATE INDEX calls_by_parent ON calls (session, parent)
    WHERE parent IS NOT NULL AND input_tokens IS NOT NULL;
CREATE TABLE prompts (
    session   INTEGER NOT NULL,
    turn      INTEGER NOT NULL,
    principal TEXT,
    transport TEXT,
    provider  TEXT NOT NULL,
    model     TEXT NOT NULL,
    parent    TEXT,
    PRIMARY KEY (session, turn)
) WITHOUT ROWID;
"""

_VERSION_4 = """
CREATE INDEX rare_records ON records (session_id, seq) WHERE kind IN ('container.expired',
    'container.used', 'files.staged', 'history.compacted', 'session.payloads_deleted');
"""

_VERSION_5 = """
CREATE TABLE summaries (
    session_id TEXT PRIMARY KEY,
    prompt     TEXT,
    tool       TEXT,
    prompts    INTEGER NOT NULL,
    calls      INTEGER NOT NULL,
    failures   INTEGER NOT NULL,
    nanos      INTEGER
) WITHOUT ROWID;
CREATE INDEX sessions_by_time ON sessions (created_at);
"""

BY_DEADLINE = "ifnull(deadline, 9e999)"
TOOL_NAME = "json_extract(CAST(request AS TEXT), '$.tool.name')"
"""What the inbox is ordered and searched by, as its indexes have it."""

_VERSION_6 = f"""
CREATE INDEX approvals_in_order ON approvals (state, {BY_DEADLINE}, filed);
CREATE INDEX approvals_by_tool ON approvals ({TOOL_NAME}, filed);
"""

_VERSION_7 = f"""
DROP INDEX rare_records;
CREATE INDEX marked_records ON records (session_id, kind, seq) WHERE kind IN ({MARKED_LIST});
"""

# Narrow, because every call writes it: a session is looked through for the rarer filters.
_VERSION_8 = """
CREATE INDEX calls_by_session ON calls (session, at, id, kind);
"""

_MIGRATIONS = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    _VERSION_5,
    _VERSION_6,
    _VERSION_7,
    _VERSION_8,
)
"""What leads from each version to the next; a new file goes through all of them, so that new and
migrated files are laid out alike. Statements end with a semicolon and hold no other.
"""

SCHEMA_VERSION = len(_MIGRATIONS)

_INDEXED_SINCE = 3
"""The first version with an index of calls."""
_SUMMARISED_SINCE = 5
"""The first version with titles and counts of sessions."""

_WAL_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """A path and how to open it."""

    path: Path
    synchronous: Synchronous
    busy_seconds: float

    def prepare(self) -> None:
        """Create the file if it is not there, and make sure it is ours and not too new."""
        self._create_owner_only()
        connection = self.connect()
        try:
            # Before anything is written: a file of another program or a newer one stays as it is.
            _schema_version(connection, self.path)
            _enter_wal_mode(connection)
            _ensure_schema(connection, self.path)
        except sqlite3.Error as error:
            raise self.explain(error) from error
        finally:
            connection.close()

    def connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        """A connection that does what it is told: no implicit transactions."""
        try:
            connection = sqlite3.connect(
                self.path,
                timeout=self.busy_seconds,
                isolation_level=None,
                check_same_thread=False,
            )
            level = "full" if self.synchronous == "full" else "normal"
            connection.execute(f"PRAGMA synchronous={level}")
            connection.execute("PRAGMA secure_delete=ON")
            if read_only:
                connection.execute("PRAGMA query_only=ON")
        except sqlite3.Error as error:
            raise self.explain(error) from error
        return connection

    def explain(self, error: sqlite3.Error) -> StoreError:
        """The same error in words that say what to do."""
        # The low byte is the primary code; the others say more than anyone can act on.
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_NOTADB:
                return StoreError(f"{self.path} is not an SQLite database; give another path")
            case sqlite3.SQLITE_CORRUPT:
                return StoreError(
                    f"{self.path} is damaged ({error}); restore it from a backup and check that "
                    "with `toolcrib audit verify`"
                )
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return StoreError(
                    f"{self.path} is busy: another process has held its write lock for more than "
                    f"{self.busy_seconds:g} seconds"
                )
            case _:
                return StoreError(f"{self.path} cannot be used: {error}")

    def _create_owner_only(self) -> None:
        # SQLite gives its -wal and -shm files the mode of the database, whatever the umask is.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with suppress(FileExistsError):
                descriptor = os.open(self.path, flags, 0o600)
                os.fchmod(descriptor, 0o600)
                os.close(descriptor)
                sync_folder(self.path.parent)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be created: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Have the disk know the files of a folder by name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _enter_wal_mode(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging, which SQLite refuses at once while another process does."""
    for attempt in range(_WAL_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if attempt == _WAL_ATTEMPTS - 1:
                raise
            time.sleep(0.02)
        else:
            return


def _ensure_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to the newest version in one transaction: all of it, or none."""
    if _schema_version(connection, path) == SCHEMA_VERSION:
        return
    # Of processes that open a new or an older file at once, the first to get the lock migrates it.
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _schema_version(connection, path)
        if version:
            _log_upgrade(path, version)
        for migration in _MIGRATIONS[version:]:
            for statement in filter(str.strip, migration.split(";")):
                connection.execute(statement)
        if version < _INDEXED_SINCE:
            _fill_calls(connection)
        elif version < _SUMMARISED_SINCE:
            _fill_summaries(connection)
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _fill_calls(connection: sqlite3.Connection) -> None:
    """Make the index of calls from the records of an older file."""
    if connection.execute("SELECT 1 FROM records LIMIT 1").fetchone() is None:
        return
    from toolcrib.prices.table import published_prices
    from toolcrib.store.sqlite_calls import fill_index

    fill_index(connection, published_prices)


def _fill_summaries(connection: sqlite3.Connection) -> None:
    """Count what is in an older file that has an index of calls."""
    from toolcrib.store.sqlite_summaries import fill_summaries

    fill_summaries(connection)


def _log_upgrade(path: Path, version: int) -> None:
    # A list of what waits reads the file without an upgrade, and starts faster without logs.
    import logging

    log = logging.getLogger("toolcrib.store")
    log.info("%s: upgrading from schema %d to %d", path, version, SCHEMA_VERSION)


def _schema_version(connection: sqlite3.Connection, path: Path) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema {version}, this version of Toolcrib knows {SCHEMA_VERSION}; "
            "upgrade Toolcrib to open it"
        )
    if version < 0:
        raise StoreError(
            f"{path} is a backup; make a store of it: toolcrib store restore {path} --store FILE"
        )
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version == 0 and tables:
        raise StoreError(f"{path} is the database of another program; give another path")
    return int(version)
