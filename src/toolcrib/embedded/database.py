"""The provider's state in one SQLite file, the ids of its rows, and the interval of its sweeps."""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeVar

from toolcrib.embedded.faults import PLACE_CHARS
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.clock import Clock


T = TypeVar("T")

VERSION: Final = 3
"""The schema that this version of the program writes."""

MIGRATIONS: Final = {
    2: tuple(
        (table, f"alter table {table} add column owner text not null default 'owner'")
        for table in ("responses", "files", "containers", "vector_stores")
    ),
}
"""By the version that they lead to: the statements for each table that an older file has.

In version 1 nobody owned anything; what it left belongs to the owner of the process. Version 3 has
a place.
"""

_BUSY_SECONDS: Final = 10.0
_TABLE_NAMES: Final = "select name from sqlite_master where type = 'table'"

SCHEMA: Final = """
create table if not exists place (name text not null);
create table if not exists responses (
    id text primary key,
    created_at real not null,
    status text not null,
    is_background integer not null,
    request text not null,
    body text not null,
    previous_id text,
    owner text not null
);
create index if not exists responses_by_owner on responses (owner);
create index if not exists responses_by_status on responses (status);
create table if not exists items (
    response_id text not null references responses (id) on delete cascade,
    place integer not null,
    is_input integer not null,
    id text not null,
    body text not null,
    answer text,
    primary key (response_id, is_input, place)
);
create index if not exists items_by_id on items (id);
create table if not exists events (
    response_id text not null references responses (id) on delete cascade,
    seq integer not null,
    body text not null,
    primary key (response_id, seq)
);
create table if not exists files (
    id text primary key,
    filename text not null,
    purpose text not null,
    bytes integer not null,
    created_at integer not null,
    expires_at integer,
    owner text not null
);
create index if not exists files_by_owner on files (owner);
create table if not exists containers (
    id text primary key,
    name text not null,
    status text not null,
    created_at integer not null,
    last_active_at integer not null,
    expires_minutes integer not null,
    memory_limit text not null,
    network_policy text not null,
    owner text not null
);
create table if not exists container_files (
    id text primary key,
    container_id text not null references containers (id) on delete cascade,
    path text not null,
    bytes integer not null,
    source text not null,
    digest text not null,
    created_at integer not null,
    unique (container_id, path)
);
"""


class Database:
    """One SQLite file, or memory without a path. Transactions run in a thread, one at a time."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        if path is not None:
            _make_private(Path(path))
        self._connection = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=_BUSY_SECONDS,
            check_same_thread=False,
            isolation_level=None,
        )
        self._lock = threading.Lock()
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("pragma foreign_keys = on")
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = normal")
        self._migrate()
        self.extend(SCHEMA)
        self.place = self.ask_now(_place)
        """The name of this state among those of all replicas, in the ids of what lies here."""

    def extend(self, schema: str) -> None:
        """Create the tables of another part if they are missing."""
        with self._lock:
            self._connection.executescript(schema)

    def _migrate(self) -> None:
        [version] = self._connection.execute("pragma user_version").fetchone()
        if version > VERSION:
            self._connection.close()
            raise UsageError(
                f"the provider's data has version {version}, this program knows {VERSION}; use the "
                "newer program, or another folder"
            )
        with self._lock:
            self._connection.execute("begin immediate")
            tables = {row["name"] for row in self._connection.execute(_TABLE_NAMES)}
            for number in range(version + 1, VERSION + 1):
                for table, statement in MIGRATIONS.get(number, ()):
                    if table in tables:
                        self._connection.execute(statement)
            self._connection.execute(f"pragma user_version = {VERSION}")
            self._connection.execute("commit")

    def new_id(self, prefix: str) -> str:
        """A new id of something that lies here and nowhere else."""
        return f"{prefix}_{self.place}-{secrets.token_hex(_BYTES)}"

    async def ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction. Cancelling the wait does not cancel the work."""
        return await asyncio.shield(asyncio.to_thread(self.ask_now, work))

    def ask_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction, in this thread."""
        with self._lock:
            self._connection.execute("begin immediate")
            try:
                done = work(self._connection)
            except BaseException:
                self._connection.execute("rollback")
                raise
            self._connection.execute("commit")
            return done

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def claim_folder(folder: Path) -> IO[bytes]:
    """Lock a folder until the returned file is closed or the process ends, however it ends.

    Raises `UsageError` if another provider holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    claim = (folder / "provider.lock").open("ab")
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        claim.close()
        raise UsageError(
            f"another provider uses the folder {folder}; choose another folder"
        ) from None
    return claim


def _place(connection: sqlite3.Connection) -> str:
    row = connection.execute("select name from place").fetchone()
    if row is not None:
        return str(row["name"])
    name = secrets.token_hex(PLACE_CHARS // 2)
    connection.execute("insert into place values (?)", (name,))
    return name


def _make_private(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


_BYTES: Final = 24


def new_id(prefix: str) -> str:
    """A new id that cannot be guessed, such as `resp_…`."""
    return f"{prefix}_{secrets.token_hex(_BYTES)}"


class SweepInterval:
    """An interval that elapses at the first check, and again every `seconds` after that. It needs
    no timer, so an idle provider does not wake up.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._next_at: float | None = None

    def has_elapsed(self) -> bool:
        """Whether a sweep is due. True starts the next interval, so the caller must sweep."""
        now = self._clock()
        if self._next_at is not None and now < self._next_at:
            return False
        self._next_at = now + self._seconds
        return True
