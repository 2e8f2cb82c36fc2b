"""The tables, by numbered files of SQL, and the version that a database has.

Expand, then contract: a migration only adds what the version before does not need to know, so that
replicas of both run side by side during an upgrade. What is dropped was unused for a whole version.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from toolcrib.errors import StoreError
from toolcrib.store.postgres.database import is_rolled_back

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_log = logging.getLogger("toolcrib.store")

SCHEMA_LOCK: Final = 0x746F6F6C63726962
"""The advisory lock under which tables are made: "toolcrib" in ASCII."""
_LOCK_SECONDS: Final = 1.0
"""How long a step waits for a table. Whoever comes after it waits for as long, so it is much less
than a lease."""
_BUSY_SECONDS: Final = 60.0
"""How long a step is tried while others, such as a backup, read the tables that it changes."""
_STEP_SECONDS: Final = 3600.0
_TURN_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    sql: str


@cache
def migrations() -> tuple[Migration, ...]:
    """Every step, in order."""
    folder = files("toolcrib.store.postgres") / "migrations"
    steps = [
        Migration(int(number), name, file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
        for number, _, name in [file.name.removesuffix(".sql").partition("_")]
    ]
    return tuple(sorted(steps, key=lambda step: step.number))


def newest_version() -> int:
    """The version of the schema that this code knows."""
    return migrations()[-1].number


async def schema_version(connection: DatabaseConnection, shown: str) -> int:
    """The version of a database, 0 for an empty one. Raises `StoreError` for one that is newer than
    this code, or of another program.
    """
    # In this order: another replica may be making all of them at once, between the two questions.
    has_sessions = await connection.fetchval("SELECT to_regclass('sessions') IS NOT NULL")
    if not await connection.fetchval("SELECT to_regclass('schema_version') IS NOT NULL"):
        if has_sessions:
            raise StoreError(
                f"{shown} has tables of another program; give the store a database of its own"
            )
        return 0
    version = int(await connection.fetchval("SELECT max(version) FROM schema_version") or 0)
    least = int(await connection.fetchval("SELECT max(least) FROM schema_version") or 0)
    # A newer schema that this code can still use says so by a `least` that is not above it.
    if version > newest_version() and least > newest_version():
        raise StoreError(
            f"{shown} has schema {version}, this version of Toolcrib knows {newest_version()}; "
            "upgrade Toolcrib to open it"
        )
    return version


async def ensure_schema(connection: DatabaseConnection, shown: str) -> None:
    """Bring a database to the newest version, each step all or not at all."""
    if await schema_version(connection, shown) and not await missing_steps(connection):
        return
    async with _schema_lock(connection, shown):
        version = await schema_version(connection, shown)
        missing = await missing_steps(connection) if version else migrations()
        if version and missing:
            _log.info("%s: upgrading from schema %d to %d", shown, version, newest_version())
        for step in missing:
            await _apply_when_free(connection, step, shown)


@asynccontextmanager
async def _schema_lock(connection: DatabaseConnection, shown: str) -> AsyncGenerator[None]:
    """Of replicas that start at once, one makes the tables and the others wait for it, however long
    it takes.
    """
    is_told = False
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", SCHEMA_LOCK):
        if not is_told:
            _log.info("%s: waiting for another process, which changes the schema", shown)
        is_told = True
        await asyncio.sleep(_TURN_SECONDS)
    try:
        yield
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", SCHEMA_LOCK)


async def _apply_when_free(connection: DatabaseConnection, step: Migration, shown: str) -> None:
    """Apply one step, again after a pause in which others get on while its tables are in use."""
    from asyncpg import LockNotAvailableError

    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            return await apply_step(connection, step)
        except Exception as error:
            if not isinstance(error, LockNotAvailableError) and not is_rolled_back(error):
                raise
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{shown}: step {step.number} ({step.name}) of the schema needs tables that "
                    f"somebody has used for {_BUSY_SECONDS:g} seconds, such as a backup or a long "
                    "query; nothing was changed, try again when that has ended"
                ) from None
            _log.info("%s: step %d waits for tables in use", shown, step.number)
        await asyncio.sleep(_LOCK_SECONDS)


async def applied_steps(connection: DatabaseConnection) -> list[int]:
    """The numbers of the steps that the tables of a database have, in order."""
    rows = await connection.fetch("SELECT version FROM schema_version ORDER BY version")
    return [row[0] for row in rows]


async def missing_steps(connection: DatabaseConnection) -> list[Migration]:
    """The steps that this code knows and the tables do not have."""
    applied = await applied_steps(connection)
    return [step for step in migrations() if step.number not in applied]


async def apply_step(connection: DatabaseConnection, step: Migration) -> None:
    """Apply one step, all or not at all."""
    async with connection.transaction():
        milliseconds = int(_LOCK_SECONDS * 1000)
        await connection.execute(
            f"SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {milliseconds}"
        )
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY, name text"
            " NOT NULL, least integer NOT NULL, at timestamptz NOT NULL DEFAULT now())"
        )
        await connection.execute(step.sql, timeout=_STEP_SECONDS)
        await connection.execute(
            "INSERT INTO schema_version (version, name, least) VALUES ($1, $2, $3)",
            step.number,
            step.name,
            _least(step),
        )


def _least(step: Migration) -> int:
    """The oldest code that can use the schema after this step, by its first line `-- least: N`;
    the step's own number when it says nothing.
    """
    first = step.sql.splitlines()[0] if step.sql else ""
    words = first.removeprefix("-- least:").strip()
    return int(words) if first.startswith("-- least:") else step.number
