"""Commands that only read work on a read replica of PostgreSQL, and leave the primary alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.cli.command import invoke
from tests.helpers.patience import PATIENCE
from tests.servers.postgres import PostgresServer, remove_postgres
from toolcrib import Executor, Session, tool
from toolcrib.errors import StoreError
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.store.postgres.database import Timeouts

pytestmark = pytest.mark.slow

KEY = new_key()


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


async def call_once(store: PostgresStore) -> None:
    async with await Session.open(store, "s") as session:
        await Executor(session, tools=[add]).call("add", {"a": 2, "b": 3})


@pytest.fixture
def standby_url(postgres: PostgresServer, postgres_url: str) -> Iterator[str]:
    """A standby that has all that its primary had."""
    with PostgresStore(postgres_url, key=KEY) as store:
        asyncio.run(call_once(store))
        last = len(list(store.records("s")))
    standby = postgres.standby()
    url = urlunsplit(urlsplit(standby.url)._replace(path=urlsplit(postgres_url).path))
    with PostgresStore(url, key=KEY) as copy:
        until = time.monotonic() + PATIENCE
        while len(list(copy.records("s"))) < last:
            assert time.monotonic() < until
    yield url
    remove_postgres(standby)


def test_audits_and_lists_are_read_from_a_standby(standby_url: str, tmp_path: Path) -> None:
    """What an auditor asks for costs the primary nothing."""
    at = ("--store", standby_url)

    assert "1 sessions" in invoke("audit", "verify", *at).stderr
    assert "completed" in invoke("calls", *at).stdout
    assert invoke("sessions", "list", *at).stdout.startswith("s\t")
    for command in (("audit", "usage"), ("approvals", "list"), ("grants", "list")):
        assert invoke(*command, *at).exit_code == 0
    assert invoke("store", "backup", tmp_path / "b", *at).exit_code == 0


def test_a_standby_is_not_written(standby_url: str) -> None:
    """The error says what it is, instead of something about a transaction."""
    with (
        PostgresStore(standby_url, key=KEY, timeouts=Timeouts(outage=0.2)) as store,
        pytest.raises(StoreError, match="read-only"),
    ):
        store.acquire("another")
