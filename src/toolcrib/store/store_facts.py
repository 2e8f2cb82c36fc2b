"""What an SQLite store holds, in numbers; read without changing or migrating it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolcrib.errors import StoreError
from toolcrib.store.sqlite_schema import SCHEMA_VERSION, SqliteFile
from toolcrib.store.vault import Vault

_BUSY_SECONDS: Final = 10.0


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
    in_vault = count("vault_files") if is_backup else len(_vault(path).names())
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


def _vault(path: Path) -> Vault:
    return Vault(Path(f"{path}-open"), fsync=False)
