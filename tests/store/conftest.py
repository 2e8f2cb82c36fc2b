"""The stores under test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.facts import FakeClock
from toolcrib.store import MemoryStore, PostgresStore, SqliteStore, Store
from toolcrib.store.cipher import new_key


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, sqlite_path: Path, clock: FakeClock) -> Iterator[Store]:
    """Every store that ships, in turn."""
    store: Store
    match request.param:
        case "memory":
            store = MemoryStore(clock=clock)
        case "sqlite":
            store = SqliteStore(sqlite_path, clock=clock)
        case _:
            store = PostgresStore(
                request.getfixturevalue("postgres_url"), clock=clock, key=new_key()
            )
    yield store
    store.close()


@pytest.fixture
def sqlite(sqlite_path: Path, clock: FakeClock) -> Iterator[SqliteStore]:
    with SqliteStore(sqlite_path, clock=clock) as each:
        yield each


@pytest.fixture
def shared(postgres_url: str, clock: FakeClock) -> Iterator[PostgresStore]:
    """A store on a new database of PostgreSQL."""
    with PostgresStore(postgres_url, clock=clock, key=new_key()) as each:
        yield each
