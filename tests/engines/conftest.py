"""A Temporal server, one for each worker of the run."""

from collections.abc import Iterator

import pytest

from tests.servers.temporal import TemporalServer, temporary_temporal


@pytest.fixture(scope="session")
def temporal() -> Iterator[TemporalServer]:
    """A server; tests share it and have task queues of their own."""
    with temporary_temporal() as server:
        yield server
