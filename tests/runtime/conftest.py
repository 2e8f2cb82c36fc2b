"""Both stores, for rules that hold on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.host_runtime import stores
from toolcrib.store.store import Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, sqlite_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    made = stores(sqlite_path)[request.param]()
    yield made
    made.close()
