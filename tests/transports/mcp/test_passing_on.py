"""Answers and definitions of a mounted server, as a client of ours gets them: item for item."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client

from tests.mcp_client.mounted_servers import rich
from tests.mcp_client.rich_peer import ANSWERS, CHART
from tests.transports.mcp.connected_client import ERAS
from toolcrib import RuntimeConfig, ToolResult, create_runtime
from toolcrib.transports.mcp import McpServer

pytestmark = pytest.mark.wire


@asynccontextmanager
async def gateway(era: str, server: Any = None, **more: Any) -> AsyncGenerator[Client]:
    config = RuntimeConfig(mcp_servers=[server or rich()], **more.pop("config", {}))
    async with (
        create_runtime(config) as runtime,
        Client(McpServer(runtime).sdk, mode=era, **more) as client,
    ):
        yield client


def plain(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_arrives_item_for_item(era: str) -> None:
    """Parts in their order with annotations, structured content beside any of them, `_meta`, and
    the same of a failure. Nothing is made of structured content that looks like parts.
    """
    given: dict[str, Any] = {}
    async with gateway(era) as client:
        for name in ANSWERS:
            answer = plain(await client.call_tool(f"rich_{name}", {}))
            answer["_meta"].pop("toolcrib/call")
            answer["_meta"].pop("io.modelcontextprotocol/serverInfo", None)
            given[name] = answer

    for name, answer in ANSWERS.items():
        whole: dict[str, Any] = {"_meta": {}, "isError": False, "resultType": "complete", **answer}
        assert given[name] == whole, name


@pytest.mark.parametrize("era", ERAS)
async def test_a_definition_arrives_as_the_server_gave_it(era: str) -> None:
    """Title, hints, icons and `_meta`; what a server leaves out is not made up."""
    async with gateway(era) as client:
        listed = {tool.name: plain(tool) for tool in (await client.list_tools()).tools}

    chart, plain_tool = listed["rich_chart"], listed["rich_plain"]
    identity = chart["_meta"].pop("toolcrib/tool")
    assert chart == {**CHART, "name": "rich_chart"}
    assert plain_tool.keys() == {"name", "description", "inputSchema", "_meta"}
    assert identity["requires_approval"] is False


async def test_hints_are_shown_and_not_believed() -> None:
    """A tool that says it is read-only is none for the policy."""
    config = RuntimeConfig(mcp_servers=[rich()])
    async with create_runtime(config) as runtime:
        session = (await runtime.create_session()).session_id
        facts = {tool.name: tool for tool in (await runtime.list_tools(session)).tools}

    chart = facts["rich_chart"]
    assert chart.presentation is not None
    assert chart.presentation["annotations"]["readOnlyHint"] is True
    assert (chart.is_read_only, chart.is_idempotent) == (False, False)


async def test_the_ledger_keeps_value_and_text() -> None:
    """Programs and the model read what they read before: the value, and one text."""
    config = RuntimeConfig(mcp_servers=[rich()])
    async with create_runtime(config) as runtime:
        session = (await runtime.create_session()).session_id
        chart = await runtime.call_tool(session, "rich_chart", {})
        lines = await runtime.call_tool(session, "rich_lines", {})

    assert chart.value == {"points": [1, 2.5]}
    assert chart.text.startswith("One chart:\nas a picture and as sound\n[image, image/png, ")
    assert lines.value == lines.text == "One chart:\nas a picture and as sound"


async def test_what_a_hook_replaces_is_not_shown_after_all() -> None:
    """A hook that takes something out of a value takes the server's own parts with it."""
    from dataclasses import replace

    import mcp_types

    from toolcrib.mcp_client.results import server_answer, tool_result, without_secrets
    from toolcrib.tools.redaction import Scrubber

    answer = mcp_types.CallToolResult.model_validate(ANSWERS["chart"])
    result = without_secrets(tool_result(answer, "chart", 100_000), Scrubber([]))
    hooked: ToolResult[Any] = replace(result, value={"points": "withheld"})

    assert server_answer(result.value, result.metadata) is not None
    assert server_answer(hooked.value, hooked.metadata) is None
