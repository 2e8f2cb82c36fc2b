"""The tables, by numbered files of SQL, and the version that a database has.

Expand, then contract: a migration only adds what the version before does not need to know, so that
replicas of both run side by side during an upgrade. What is dropped was unused for a whole version.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from toolcrib.errors import StoreError

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_log = logging.getLogger("toolcrib.store")

SCHEMA_LOCK: Final = 0x746F6F6C63726962
"""The advisory lock under which tables are made: "toolcrib" in ASCII."""
_STEP_SECONDS: Final = 7 * 24 * 3600.0
"""How long a step may take, and how long another replica waits for it: an index of a large table is
not made in the time that other statements have.
"""


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
    # Of replicas that start at once, one makes the tables and the others wait for it.
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute("SELECT pg_advisory_lock($1)", SCHEMA_LOCK, timeout=_STEP_SECONDS)
    try:
        version = await schema_version(connection, shown)
        if version:
            _log.info("%s: upgrading from schema %d to %d", shown, version, newest_version())
        for step in await missing_steps(connection) if version else migrations():
            await apply_step(connection, step)
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", SCHEMA_LOCK)


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
        await connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s'")
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
