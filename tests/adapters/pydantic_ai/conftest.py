"""What tests of the adapter share."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.adapters.pydantic_ai.acting import Act
from tests.adapters.pydantic_ai.replaying import Theatre
from tests.adapters.pydantic_ai.stage import stage


@pytest.fixture(scope="module")
def act() -> Iterator[Act]:
    """What plays the short scripts of a module."""
    with stage() as server, asyncio.Runner() as runner:
        theatre = Theatre(server)
        yield Act(runner, theatre)
        runner.run(theatre.close())
