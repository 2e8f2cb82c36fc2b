"""Tools of another MCP server, as a client of ours sees them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp_types import ImageContent, TextContent

from tests.mcp_client.mounted_servers import stdio
from tests.transports.mcp.connected_client import ERAS, facts_of
from toolcrib import RuntimeConfig, create_runtime
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry
from toolcrib.transports.mcp import McpServer
from toolcrib.transports.mcp.results import content_blocks

PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


@asynccontextmanager
async def serving(era: str, *tools: HostToolDefinition, **more: Any) -> AsyncGenerator[Client]:
    registry = HostToolRegistry()
    for each in tools:
        registry.add(each)
    config = RuntimeConfig(host_tool_registry=registry, **more)
    async with (
        create_runtime(config) as runtime,
        Client(McpServer(runtime).sdk, mode=era) as client,
    ):
        yield client


@pytest.mark.wire
@pytest.mark.parametrize("era", ERAS)
async def test_what_a_server_promises_and_shows_is_given_on(era: str) -> None:
    """Output schemas and structured content, and pictures as pictures, not as data about them."""
    async with serving(era, mcp_servers=[stdio()]) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        added = await client.call_tool("peer_add", {"a": 2, "b": 3})
        shown = await client.call_tool("peer_picture", {})

    promised = listed["peer_add"].output_schema
    assert promised is not None
    assert promised["properties"]["result"]["type"] == "integer"
    assert listed["peer_greet"].output_schema is None
    assert added.structured_content == {"result": 5}
    words, picture = shown.content
    assert isinstance(words, TextContent)
    assert isinstance(picture, ImageContent)
    assert words.text == "Look:"
    assert b64decode(picture.data).endswith(b"pixel")
    assert shown.structured_content is None


@pytest.mark.parametrize("era", ERAS)
async def test_a_declared_schema_is_told_and_kept(era: str) -> None:
    """A host tool's output schema is the client's, and what breaks it is an error."""
    given: list[Any] = [{"left": 3}, {"left": "three"}]
    level = HostToolDefinition(
        name="level",
        description="How much is left.",
        parameters={"type": "object"},
        handler=lambda input, context: given.pop(0),
        output_schema={"type": "object", "properties": {"left": {"type": "integer"}}},
    )
    async with serving(era, level) as client:
        (listed,) = (await client.list_tools()).tools
        fitting = await client.call_tool("level", {})
        broken = await client.call_tool("level", {})

    assert listed.output_schema == level.output_schema
    assert fitting.structured_content == {"left": 3}
    assert broken.is_error
    assert facts_of(broken)["failure"]["kind"] == "invalid_result"


def test_parts_stay_in_their_order() -> None:
    """Where the model's text says the same, nothing is changed."""
    parts = [PICTURE, {"type": "text", "text": "and that"}]
    assert content_blocks(parts, "[image, image/png, 2 bytes]\nand that") == parts


def test_what_was_added_or_left_out_is_still_said() -> None:
    """An edit's note, a cut, a picture that was too large: the text has them."""
    omitted = {"type": "image", "omitted": True, "size": 9}
    parts = [{"type": "text", "text": "this"}, PICTURE, omitted]
    text = {"type": "text", "text": "this, and a note"}
    assert content_blocks(parts, "this, and a note") == [text, PICTURE]
