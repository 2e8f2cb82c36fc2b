"""What a database holds, in numbers, and how it is from where this process stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from toolcrib.errors import StoreError, ToolcribError
from toolcrib.store.backup import StoreFacts
from toolcrib.store.cipher import Cipher, keys_from_environment
from toolcrib.store.postgres.database import PostgresDatabase, Timeouts, close_connection
from toolcrib.store.postgres.heartbeat import live_replicas
from toolcrib.store.postgres.schema import missing_steps, newest_version, schema_version
from toolcrib.store.shared_store import Replica

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

T = TypeVar("T")

PATIENT: Final = Timeouts(statement=7 * 24 * 3600.0)
"""For work on all of a store, which may take hours."""
_SIZE: Final = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'm')
"""
_SEALED: Final = """
SELECT DISTINCT substring(sealed FROM 1 FOR 8) FROM (
    SELECT sealed FROM shared_values UNION ALL SELECT sealed FROM open_calls
    UNION ALL SELECT sealed FROM approvals
) s WHERE sealed IS NOT NULL LIMIT 20
"""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema of a database, and what this code would add to it."""

    version: int
    """0 for an empty database."""
    newest: int
    missing: tuple[str, ...]
    """The steps that this code would apply."""


@dataclass(frozen=True, slots=True)
class DatabaseHealth:
    """What somebody who looks for a fault wants to know first."""

    server: str
    """The version of PostgreSQL."""
    schema: SchemaState
    sessions: int
    replicas: tuple[Replica, ...]
    clock_difference: float
    """How many seconds the clock of this machine is ahead of the database's, to half of the
    round trip that it took to ask.
    """
    has_key: bool
    unknown_keys: tuple[str, ...]
    """The names of keys that secrets of the store were sealed with, and that are not given here."""
    old_keys: tuple[str, ...]
    """The names of keys behind the first that secrets still need."""


def use_database(
    url: str,
    work: Callable[[DatabaseConnection, PostgresDatabase], Awaitable[T]],
    timeouts: Timeouts = PATIENT,
) -> T:
    """Do some work on a connection of its own, without opening the store: no table is made. Raises
    `StoreError`.
    """
    database = PostgresDatabase(url, timeouts, 1)

    async def main() -> T:
        connection = await database.connect()
        try:
            return await work(connection, database)
        finally:
            await close_connection(connection)

    try:
        return asyncio.run(main())
    except ToolcribError:
        raise
    except Exception as error:
        raise database.explain(error) from error


def schema_state(url: str) -> SchemaState:
    """Look at the schema of a database, and change nothing. Raises `StoreError`."""
    return use_database(url, _schema_state)


async def _schema_state(connection: DatabaseConnection, database: PostgresDatabase) -> SchemaState:
    version = await schema_version(connection, database.shown)
    missing = await missing_steps(connection) if version else ()
    return SchemaState(version, newest_version(), tuple(step.name for step in missing))


def database_facts(url: str) -> StoreFacts:
    """Count what the store in a database holds. Raises `StoreError`."""

    async def work(connection: DatabaseConnection, database: PostgresDatabase) -> StoreFacts:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return await counted(connection, database.shown)

    return use_database(url, work)


async def counted(connection: DatabaseConnection, shown: str) -> StoreFacts:
    """The numbers of a store, in the transaction of the caller."""
    version = await schema_version(connection, shown)
    if not version:
        raise StoreError(f"there is no store in {shown}; `toolcrib serve` makes its tables")

    async def count(rows: str) -> int:
        return int(await connection.fetchval(f"SELECT count(*) FROM {rows}"))

    span = await connection.fetchrow("SELECT count(*), min(at), max(at) FROM records")
    assert span is not None
    has_calls = await connection.fetchval("SELECT to_regclass('calls') IS NOT NULL")
    sealed = [await count(f"{table} WHERE sealed IS NOT NULL") for table in _SEALING]
    return StoreFacts(
        path=shown,
        schema=version,
        newest_schema=newest_version(),
        is_backup=False,
        size=int(await connection.fetchval(_SIZE)),
        free=0,
        sessions=await count("sessions"),
        records=span[0],
        deleted_payloads=span[0] - await count("payloads"),
        oldest_at=span[1],
        newest_at=span[2],
        calls=await count("calls") if has_calls else None,
        open_calls=await count("open_calls"),
        pending_approvals=await count("approvals WHERE state = 'pending'"),
        grants=await count("grants"),
        artifacts=await count("artifacts"),
        vault_files=sum(sealed),
    )


_SEALING: Final = ("open_calls", "approvals")


def database_health(url: str, key: str | None = None) -> DatabaseHealth:
    """Ask a database how it is, and change nothing. `key` is that of the store, None for that of
    the environment. Raises `StoreError`, and `UsageError` for a key that is none.
    """
    cipher = Cipher(key if key is not None else keys_from_environment())

    async def work(connection: DatabaseConnection, database: PostgresDatabase) -> DatabaseHealth:
        asked_at = time.time()
        there = await connection.fetchval(
            "SELECT extract(epoch FROM clock_timestamp())::double precision"
        )
        difference = (asked_at + time.time()) / 2 - there
        schema = await _schema_state(connection, database)
        replicas: list[Replica] = []
        sessions, unknown, old = 0, set[str](), set[str]()
        if schema.version:
            replicas = await live_replicas(connection, None)
            sessions = int(await connection.fetchval("SELECT count(*) FROM sessions"))
            names = {row[0].hex() for row in await connection.fetch(_SEALED)}
            unknown = names - set(cipher.key_names)
            old = names & set(cipher.key_names[1:])
        server = str(await connection.fetchval("SHOW server_version")).split()[0]
        return DatabaseHealth(
            server,
            schema,
            sessions,
            tuple(replicas),
            difference,
            cipher.has_key,
            tuple(sorted(unknown)),
            tuple(sorted(old)),
        )

    return use_database(url, work, Timeouts())
