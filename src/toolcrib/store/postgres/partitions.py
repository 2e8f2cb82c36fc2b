"""Partitions of records and payloads: one for each week in which sessions were born."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from toolcrib.store.postgres.database import is_timed_out

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_log = logging.getLogger("toolcrib.store")

WEEK: Final = 7 * 24 * 3600
"""Seconds."""
PARTITIONED: Final = ("records", "payloads")
_EMPTY: Final = """
SELECT w.name, w.is_pending FROM (
    SELECT c.relname AS name, i.inhdetachpending AS is_pending,
        substring(pg_get_expr(c.relpartbound, c.oid) FROM 'IN \\((\\d+)\\)')::integer AS born
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass($1)
) w WHERE w.born < $2 AND NOT EXISTS (SELECT FROM sessions s WHERE s.born = w.born)
ORDER BY w.is_pending DESC, w.name
"""
"""One whose detachment was interrupted comes first: until it has ended, no other can begin."""
_LEFTOVERS: Final = """
SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND NOT c.relispartition
    AND c.relnamespace = current_schema()::regnamespace AND c.relname ~ $1
"""
_LOCK: Final = 0x706172746974696F
"""The advisory lock under which partitions are made: "partitio" in ASCII."""


def week_of(at: float) -> int:
    """The week of a time: how many there were since 1970."""
    return int(at // WEEK)


def partition_name(table: str, born: int) -> str:
    """The table that holds a week, named for its first day."""
    return f"{table}_{datetime.fromtimestamp(born * WEEK, UTC):%Y%m%d}"


async def ensure_week(connection: DatabaseConnection, born: int) -> None:
    """Make the partitions of a week, unless they are there. Within a transaction."""
    name = partition_name(PARTITIONED[-1], born)
    if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name):
        return
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
    for table in PARTITIONED:
        name = partition_name(table, born)
        if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name):
            continue
        # Attached afterwards: making it in place would lock out every reader of the table.
        await connection.execute(
            f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE)"
        )
        await connection.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES IN ({born})"
        )


async def drop_empty_weeks(connection: DatabaseConnection, before: int) -> int:
    """Drop the partitions of weeks earlier than `before` whose every session was deleted; returns
    how many. What somebody still reads, such as a backup, is left for the next time. Outside of a
    transaction, and of one process at a time.
    """
    dropped = 0
    for table in PARTITIONED:
        for name, is_pending in await connection.fetch(_EMPTY, table, before):
            # Concurrently, so that nobody who reads or writes other weeks waits for it.
            how = "FINALIZE" if is_pending else "CONCURRENTLY"
            try:
                await connection.execute(f"ALTER TABLE {table} DETACH PARTITION {name} {how}")
            except Exception as error:
                if not is_timed_out(error):
                    raise
                _log.info("%s is dropped later: a transaction still reads %s", name, table)
                return dropped
        # What was detached now, and what somebody who was killed had detached.
        for (name,) in await connection.fetch(_LEFTOVERS, rf"^{table}_\d{{8}}$"):
            if partition_name(table, before) > name:
                await connection.execute(f"DROP TABLE {name}")
                dropped += 1
    return dropped
