"""A Temporal server for the runs that it drives."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.servers.temporal import TemporalServer, temporary_temporal


@pytest.fixture
def temporal() -> Generator[TemporalServer]:
    """A server of one test: it starts before the test's event loop, which it cannot start in."""
    with temporary_temporal() as server:
        yield server
