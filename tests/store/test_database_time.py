"""Machines that share a database go by its time, whatever their own clocks say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from toolcrib import Session
from toolcrib.store import PostgresStore
from toolcrib.store.postgres import heartbeat

HOUR = 3600.0


@pytest.fixture(params=[-HOUR, HOUR])
def store(
    request: pytest.FixtureRequest, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresStore]:
    """A replica on a machine whose clock is an hour behind, or ahead."""
    wrong = SimpleNamespace(time=lambda: time.time() + request.param)
    monkeypatch.setattr(heartbeat, "time", wrong)
    with PostgresStore(postgres_url) as opened:
        opened.release(opened.acquire("first"))
        yield opened


def test_the_clock_of_a_shared_store_is_the_databases(store: PostgresStore) -> None:
    """The database of this test runs on this machine, so that its time is known."""
    assert store.clock() == pytest.approx(time.time(), abs=5)


async def test_what_a_session_records_has_the_databases_time(store: PostgresStore) -> None:
    """Deadlines, decisions and the end of doubt are reckoned from it at every replica."""
    async with await Session.open(store, "s") as session:
        assert session.clock() == pytest.approx(time.time(), abs=5)

    for record in store.records("s"):
        assert record.at == pytest.approx(time.time(), abs=60)


async def test_a_clock_that_is_given_is_the_one(postgres_url: str) -> None:
    """For tests: the store's, and the session's before it."""
    with PostgresStore(postgres_url, clock=lambda: 10.0) as store:
        assert store.clock() == 10.0
        async with await Session.open(store, "s", clock=lambda: 20.0) as session:
            assert session.clock() == 20.0
