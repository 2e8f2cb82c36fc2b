"""Backups of an SQLite store, and what a store or a backup holds, in numbers.

A backup is one file, taken while servers write. It holds the database as it was at one moment and
the secrets of its open calls. It appears under its name only when it is whole.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolcrib.clock import SYSTEM_CLOCK
from toolcrib.errors import LedgerBroken, StoreError
from toolcrib.ledger.record import ChainCheck, Head
from toolcrib.store.sqlite_reader import Reader
from toolcrib.store.sqlite_schema import SCHEMA_VERSION, SqliteFile
from toolcrib.store.vault import Vault
from toolcrib.store.whole_file import write_whole

_BUSY_SECONDS: Final = 30.0
_VAULT_NAME: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class BackupFacts:
    """What a backup holds."""

    path: Path | str
    """The file, or the database that was restored."""
    schema: int
    sessions: int
    records: int
    open_calls: int
    size: int


def back_up(source: Path, target: Path) -> BackupFacts:
    """Write a backup of the store at `source`, which may be in use, to a new file.

    Raises `StoreError` when there is a file already, or the copy is not whole.
    """
    _check_source(source)

    def write(partial: Path) -> BackupFacts:
        with closing(_connect(source)) as lock, closing(_connect(source)) as snapshot:
            # While nobody commits, no file of the vault goes away that the snapshot names.
            lock.execute("BEGIN IMMEDIATE")
            snapshot.execute("BEGIN")
            version = _version(snapshot)
            in_vault = _vault_files(snapshot, _vault_of(source))
            lock.execute("ROLLBACK")
            with closing(_connect(partial)) as copy:
                snapshot.backup(copy)
                _finish_backup(copy, version, in_vault)
        return _checked(partial, target)

    return _written(target, write)


def restore(backup: Path, target: Path) -> BackupFacts:
    """Make a store of a backup, where there is none. Raises `StoreError`."""
    _check_source(backup)
    for beside in (target, Path(f"{target}-wal")):
        if beside.exists():
            raise StoreError(f"{beside} is there already; restore to another path, or move it away")

    def write(partial: Path) -> BackupFacts:
        shutil.copyfile(backup, partial)
        facts = _checked(partial, target)
        if facts.schema > SCHEMA_VERSION:
            raise StoreError(
                f"{backup} has schema {facts.schema}, this version of Toolcrib knows "
                f"{SCHEMA_VERSION}; upgrade Toolcrib to restore it"
            )
        with closing(_connect(partial)) as copy:
            files = copy.execute("SELECT name, data FROM vault_files").fetchall()
            _put_back(_vault_of(target), files)
            copy.execute("DROP TABLE vault_files")
            copy.execute(f"PRAGMA user_version={facts.schema}")
        return facts

    return _written(target, write)


def _check_source(path: Path) -> None:
    # Opening a missing file would make one.
    if not path.is_file():
        raise StoreError(f"there is no file {path}")


def _finish_backup(
    copy: sqlite3.Connection, version: int, in_vault: list[tuple[str, bytes]]
) -> None:
    """Make the copy one file that is a backup and no store: nobody writes it, nobody holds it."""
    copy.execute("PRAGMA journal_mode=DELETE")
    copy.execute("BEGIN")
    copy.execute("CREATE TABLE vault_files (name TEXT PRIMARY KEY, data BLOB NOT NULL)")
    copy.executemany("INSERT INTO vault_files VALUES (?, ?)", in_vault)
    copy.execute("UPDATE sessions SET holder = NULL, expires_at = 0")
    copy.execute(f"PRAGMA user_version={-version}")
    copy.execute("COMMIT")


def _written(target: Path, write: Callable[[Path], BackupFacts]) -> BackupFacts:
    try:
        return write_whole(target, write)
    except sqlite3.Error as error:
        raise StoreError(f"{target} was not written: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    return SqliteFile(path, "normal", _BUSY_SECONDS).connect()


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < 1:
        raise StoreError("this is no store of Toolcrib, or a backup of one; give another path")
    return version


def _vault_of(store: Path) -> Vault:
    return Vault(Path(f"{store}-open"), fsync=True)


def _vault_files(connection: sqlite3.Connection, vault: Vault) -> list[tuple[str, bytes]]:
    rows = connection.execute(
        "SELECT vault FROM open_calls WHERE vault IS NOT NULL"
        " UNION SELECT vault FROM approvals WHERE vault IS NOT NULL"
    ).fetchall()
    try:
        return [(name, vault.read(name)) for (name,) in rows]
    except FileNotFoundError as error:
        raise StoreError(
            f"the arguments of an open call are not at {error.filename}; the folder belongs to the "
            "store"
        ) from None


def _put_back(vault: Vault, files: list[tuple[str, bytes]]) -> None:
    for name, data in files:
        # A name of another form could be a path.
        if not _VAULT_NAME.fullmatch(name):
            raise StoreError(f"the backup was changed: {name[:40]!r} is no name in a vault")
        vault.put_back(name, data)


def _checked(partial: Path, target: Path) -> BackupFacts:
    """Check a backup as it lies on the disk: every page, and the chain of every session."""
    with closing(_connect(partial)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version >= 0:
            raise StoreError("this is no backup; `toolcrib store backup` makes one")
        faults = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if faults != [("ok",)]:
            raise StoreError(f"the copy is damaged: {faults[0][0]}")
        heads = connection.execute("SELECT session_id, head_seq, head_hash FROM sessions")
        sessions = [Head(*row) for row in heads.fetchall()]
        (open_calls,) = connection.execute("SELECT count(*) FROM open_calls").fetchone()
    records = _check_chains(partial, sessions)
    size = partial.stat().st_size
    return BackupFacts(target, -version, len(sessions), records, open_calls, size)


def _check_chains(partial: Path, heads: list[Head]) -> int:
    file = SqliteFile(partial, "normal", _BUSY_SECONDS)
    reader = Reader(file, Vault(Path(f"{partial}-open"), fsync=False), SYSTEM_CLOCK)
    count = 0
    with closing(reader):
        for head in heads:
            chain = ChainCheck([head] if head.seq else [])
            try:
                for record in reader.records(head.session_id, 0):
                    chain.take(record)
                    count += 1
                chain.end()
            except LedgerBroken as error:
                raise StoreError(
                    f"session {head.session_id!r} does not verify: {error}; run `toolcrib audit "
                    "verify` on the store"
                ) from None
    return count


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A store in numbers."""

    path: str
    schema: int
    newest_schema: int
    """The schema that this version of Toolcrib writes."""
    is_backup: bool
    size: int
    """Of the database in bytes, without its log."""
    free: int
    """How many of them are free for what comes."""
    sessions: int
    records: int
    deleted_payloads: int
    """Records whose payload was deleted."""
    oldest_at: float | None
    newest_at: float | None
    calls: int | None
    """Rows of the index of calls; None in a schema that has none."""
    open_calls: int
    pending_approvals: int
    grants: int
    artifacts: int
    vault_files: int


def schema_of(path: Path) -> int:
    """The schema of a store; negative for a backup. Raises `StoreError`."""
    if not path.is_file():
        raise StoreError(f"there is no store at {path}")
    file = SqliteFile(path, "normal", _BUSY_SECONDS)
    try:
        with closing(file.connect(read_only=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise file.explain(error) from error
    if version == 0 and tables:
        raise StoreError(f"{path} is the database of another program; give another path")
    return version


def store_facts(path: Path) -> StoreFacts:
    """Count what a store holds, of this or an earlier schema. Raises `StoreError`."""
    schema = schema_of(path)
    if abs(schema) > SCHEMA_VERSION or schema == 0:
        raise StoreError(
            f"{path} has schema {abs(schema)}, this version of Toolcrib knows 1 to {SCHEMA_VERSION}"
        )
    file = SqliteFile(path, "normal", _BUSY_SECONDS)
    try:
        with closing(file.connect(read_only=True)) as connection:
            connection.execute("BEGIN")
            return _counted(connection, path, schema)
    except sqlite3.Error as error:
        raise file.explain(error) from error


def _counted(connection: sqlite3.Connection, path: Path, schema: int) -> StoreFacts:
    def count(rows: str) -> int:
        return connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]

    def pragma(name: str) -> int:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]

    records = count("records")
    oldest, newest = connection.execute("SELECT min(at), max(at) FROM records").fetchone()
    is_backup = schema < 0
    in_vault = count("vault_files") if is_backup else len(_vault_of(path).names())
    return StoreFacts(
        path=str(path),
        schema=abs(schema),
        newest_schema=SCHEMA_VERSION,
        is_backup=is_backup,
        size=pragma("page_count") * pragma("page_size"),
        free=pragma("freelist_count") * pragma("page_size"),
        sessions=count("sessions"),
        records=records,
        deleted_payloads=records - count("payloads"),
        oldest_at=oldest,
        newest_at=newest,
        calls=count("calls") if abs(schema) >= 3 else None,
        open_calls=count("open_calls"),
        pending_approvals=count("approvals WHERE state = 'pending'"),
        grants=count("grants"),
        artifacts=count("artifacts"),
        vault_files=in_vault,
    )
