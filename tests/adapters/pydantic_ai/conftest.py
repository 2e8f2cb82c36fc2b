"""What tests of the adapter share."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.adapters.pydantic_ai.handwritten_scripts import Act
from tests.adapters.pydantic_ai.recording_server import stage
from tests.adapters.pydantic_ai.script_replay import Theatre


@pytest.fixture(scope="module")
def act() -> Iterator[Act]:
    """What plays the short scripts of a module."""
    with stage() as server, asyncio.Runner() as runner:
        theatre = Theatre(server)
        yield Act(runner, theatre)
        runner.run(theatre.close())
