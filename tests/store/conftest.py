"""The stores under test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.facts import FakeClock
from toolcrib.store import MemoryStore, SqliteStore, Store


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, sqlite_path: Path, clock: FakeClock) -> Iterator[Store]:
    """Every store that ships, in turn."""
    store: Store = (
        MemoryStore(clock=clock)
        if request.param == "memory"
        else SqliteStore(sqlite_path, clock=clock)
    )
    yield store
    store.close()


@pytest.fixture
def sqlite(sqlite_path: Path, clock: FakeClock) -> Iterator[SqliteStore]:
    with SqliteStore(sqlite_path, clock=clock) as each:
        yield each
