"""The reference server of the protocol's makers, mounted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import Mount, mounted, terms
from tests.node.peers import MODULES, command, needs_node
from toolcrib.ledger.events import ToolProgress
from toolcrib.mcp_client import StdioServerConfig

pytestmark = [pytest.mark.wire, needs_node]

SERVER = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"


@pytest.fixture
async def everything() -> AsyncGenerator[Mount]:
    config = StdioServerConfig(
        name="everything",
        terms=terms("everything"),
        command=command("node"),
        args=(str(SERVER), "stdio"),
    )
    async with mounted(config) as peer:
        yield peer


async def test_its_tools_are_all_mounted(everything: Mount) -> None:
    """Also those whose schemas are written in an older draft."""
    assert everything.server.fault is None
    assert everything.server.tools.invalid == {}
    assert len(everything.server.tools.served) >= 10


async def test_text_data_and_pictures_come_through(everything: Mount) -> None:
    """Each kind of content is mapped."""
    echoed = await everything.call("everything_echo", message="hello")
    image = await everything.call("everything_get-tiny-image")
    weather = await everything.call("everything_get-structured-content", location="New York")

    assert echoed.text == "Echo: hello"
    assert "[image, image/png," in image.text
    assert "temperature" in weather.value


async def test_its_progress_is_told(everything: Mount) -> None:
    """A long operation reports as it goes."""
    told: list[ToolProgress] = []
    everything.session.bus.subscribe(ToolProgress, told.append)
    name = "everything_trigger-long-running-operation"
    done = await asyncio.wait_for(everything.call(name, duration=0.4, steps=2), PATIENCE)

    assert done.ok
    assert told[-1].total == 2
