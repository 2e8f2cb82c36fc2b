"""The schema of a PostgreSQL store while other replicas work on it."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import pytest

from tests.helpers.patience import PATIENCE
from tests.store.facts import write
from toolcrib.errors import StoreError
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.store.postgres import schema
from toolcrib.store.postgres.database import Timeouts
from toolcrib.store.postgres.schema import Migration

KEY = new_key()
LEASE_SECONDS = 10.0
NEXT = schema.newest_version() + 1
_WAITS_FOR_A_TABLE = "SELECT 1 FROM pg_locks WHERE relation = 'sessions'::regclass AND NOT granted"


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have this process know one more step."""

    def add(sql: str) -> None:
        steps = (*schema.migrations(), Migration(NEXT, "added", sql))
        monkeypatch.setattr(schema, "migrations", lambda: steps)

    return add


async def lock_waited_for(connection: Any) -> None:
    """Wait until a step waits for a table."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await connection.fetchval(_WAITS_FOR_A_TABLE):
                return
            await asyncio.sleep(0.01)


def steps_of(url: str) -> list[int]:
    async def ask() -> list[int]:
        connection = await asyncpg.connect(url)
        try:
            return await schema.applied_steps(connection)
        finally:
            await connection.close()

    return asyncio.run(ask())


async def test_a_step_that_waits_for_a_table_does_not_hold_up_the_replicas(
    postgres_url: str, next_version: Any
) -> None:
    """A backup reads all tables for minutes. The step is tried again until that has ended, and
    between two tries replicas write: none of them loses its lease over it.
    """
    with PostgresStore(postgres_url, key=KEY, lease_seconds=LEASE_SECONDS) as replica:
        lease = replica.acquire("s")
        backup = await asyncpg.connect(postgres_url)
        async with backup.transaction(isolation="repeatable_read", readonly=True):
            await backup.fetch("SELECT 1 FROM sessions")
            next_version("-- least: 1\nALTER TABLE sessions ADD COLUMN added text")
            opening = asyncio.ensure_future(
                asyncio.to_thread(lambda: PostgresStore(postgres_url, key=KEY))
            )
            await lock_waited_for(backup)
            before = time.monotonic()
            await asyncio.to_thread(write, replica, lease, 3)
            assert time.monotonic() - before < LEASE_SECONDS / 2
            assert not opening.done()
        await backup.close()
        (await opening).close()
    assert NEXT in await asyncio.to_thread(steps_of, postgres_url)


def test_a_step_that_takes_long_is_waited_for(postgres_url: str, next_version: Any) -> None:
    """It may take longer than any other statement: the replica that applies it waits, and so does
    one that starts meanwhile.
    """
    PostgresStore(postgres_url, key=KEY).close()
    next_version("-- least: 1\nSELECT pg_sleep(1)")

    def opened(_: int) -> None:
        PostgresStore(postgres_url, key=KEY, timeouts=Timeouts(statement=0.4, outage=0.1)).close()

    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(opened, range(2))] == [None, None]
    assert NEXT in steps_of(postgres_url)


def test_an_older_version_uses_a_newer_schema_until_that_says_no(
    postgres_url: str, next_version: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first line of a step says which versions can use the tables after it."""
    next_version(f"-- least: {NEXT - 1}\nCREATE TABLE added (note text)")
    PostgresStore(postgres_url, key=KEY).close()
    monkeypatch.undo()

    with PostgresStore(postgres_url, key=KEY) as old:
        write(old, old.acquire("s"), 1)

    next_version(f"-- least: {NEXT}\nDROP TABLE added")
    asyncio.run(_forget_step(postgres_url))
    PostgresStore(postgres_url, key=KEY).close()
    monkeypatch.undo()
    with pytest.raises(StoreError, match=rf"schema {NEXT}.* knows {NEXT - 1}; upgrade Toolcrib"):
        PostgresStore(postgres_url, key=KEY)


async def _forget_step(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("DELETE FROM schema_version WHERE version = $1", NEXT)
    finally:
        await connection.close()
