"""What the tables need from time to time, done by one replica at a time.

Next week's partitions before the week begins, values that expired, turns that are long over or wait
for a request that is no more, and once a day the statistics of the partitioned tables, which the
database does not keep by itself, and secrets under an older key.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from toolcrib.store.cipher import Cipher
from toolcrib.store.postgres import turn_rows
from toolcrib.store.postgres.database import PostgresDatabase, close_connection
from toolcrib.store.postgres.partitions import (
    PARTITIONED,
    WEEK,
    drop_empty_weeks,
    ensure_week,
    week_of,
)
from toolcrib.store.postgres.sealed_rows import seal_anew
from toolcrib.store.postgres.values import prune_values

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_log = logging.getLogger("toolcrib.store")

UPKEEP_LOCK: Final = 0x75706B6565700000
"""The advisory lock of whoever does it: "upkeep" in ASCII."""
_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_DAY: Final = 24 * 3600.0
_TURN_SECONDS: Final = _DAY
"""How long a turn that has ended is kept for whoever asks what became of it."""
# A name that no shared value of a session or of an identity has.
_DUE: Final = """
INSERT INTO shared_values AS v (name, body, version, expires_at)
VALUES ($1, '', 1, $2::double precision + $3::double precision)
ON CONFLICT (name) DO UPDATE SET version = v.version + 1, expires_at = excluded.expires_at
WHERE v.expires_at <= $2 RETURNING true
"""


class Upkeep:
    """Looks once a minute whether something is due, on a connection of its own."""

    def __init__(
        self,
        database: PostgresDatabase,
        now: Callable[[], float | None],
        cipher: Cipher | None = None,
    ) -> None:
        self._database = database
        self._now = now
        self._cipher = cipher or Cipher(None)
        self._task: asyncio.Task[None] | None = None
        # Spread, so that replicas that started together do not come together.
        self._next = time.monotonic() + random.uniform(0.0, _MINUTE)

    async def beat(self, _: DatabaseConnection) -> None:
        """Begin in the background when it is time; the beat does not wait for it."""
        if time.monotonic() < self._next or (self._task is not None and not self._task.done()):
            return
        self._next = time.monotonic() + _MINUTE
        self._task = asyncio.create_task(self._main())

    async def close(self) -> None:
        """Stop what is under way; another replica does it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _main(self) -> None:
        try:
            await self.run()
        except Exception as error:
            _log.error("the upkeep of the store failed: %s", self._database.explain(error))

    async def run(self) -> bool:
        """Do what is due; False when another replica is at it. Raises what the driver raises."""
        connection = await self._database.connect()
        try:
            # Held by the connection: it is free again when this process dies.
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", UPKEEP_LOCK):
                return False
            now = self._now() or await connection.fetchval("SELECT toolcrib_now()")
            if await connection.fetchval(_DUE, "upkeep/minute", now, _MINUTE * 0.9):
                await _keep_up(connection, now)
            if await connection.fetchval(_DUE, "upkeep/day", now, _DAY):
                await drop_empty_weeks(connection, _over(now))
                await seal_anew(connection, self._cipher)
                await _keep_statistics(connection)
            return True
        finally:
            await close_connection(connection)

    async def drop_empty_weeks(self) -> int:
        """Drop weeks without sessions now, unless another process is at it."""
        connection = await self._database.connect()
        try:
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", UPKEEP_LOCK):
                return 0
            now = self._now() or await connection.fetchval("SELECT toolcrib_now()")
            return await drop_empty_weeks(connection, _over(now))
        finally:
            with suppress(Exception):
                await close_connection(connection)


def _over(now: float) -> int:
    """The first week that a session may still be born in. Not this one at its very beginning: a
    transaction of the week before may not have ended.
    """
    return week_of(now - _HOUR)


async def _keep_up(connection: DatabaseConnection, now: float) -> None:
    for at in (now, now + WEEK):
        async with connection.transaction():
            await ensure_week(connection, week_of(at))
    await prune_values(connection, now)
    await connection.execute(turn_rows.PRUNE, now - _TURN_SECONDS)
    await connection.execute(turn_rows.WITHDRAWN, now, None)


async def _keep_statistics(connection: DatabaseConnection) -> None:
    # It reads a part of every partition, which takes longer the more there are.
    await connection.execute("SET statement_timeout = 0")
    for table in PARTITIONED:
        await connection.execute(f"ANALYZE {table}", timeout=_DAY)
