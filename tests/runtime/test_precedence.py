"""Tools of one name: the host's, and those of MCP servers."""

from __future__ import annotations

import pytest

from tests.mcp_client.mounted_servers import Json, raw
from tests.runtime.host_runtime import events, host_tool, new_session, serving
from toolcrib.runtime.runtime import Runtime

pytestmark = pytest.mark.wire

NAME = "raw_read"


async def listed(runtime: Runtime, session_id: str) -> tuple[Json, Json]:
    """The sources of a session's tools by name, and what it does not have."""
    told = await runtime.ask("tools.list", {"session_id": session_id})
    return {each.name: each.source for each in told.tools}, told.unavailable


async def test_a_tool_of_the_host_stands_before_a_servers_with_override() -> None:
    """R25: without `override` it is withheld and the server's stays; with it, it takes the place,
    and the server's comes back when it is gone.
    """
    async with serving(mcp_servers=[raw("read")]) as runtime:
        session_id = await new_session(runtime)
        await runtime.registry.register(host_tool(NAME))
        beside, withheld = await listed(runtime, session_id)
        await runtime.registry.unregister(NAME)
        await runtime.registry.register(host_tool(NAME), override=True)
        before, _ = await listed(runtime, session_id)
        await runtime.registry.unregister(NAME)
        after, left = await listed(runtime, session_id)
        told = await events(runtime, session_id, "tool.withheld")

    assert (beside, after) == ({NAME: "mcp:raw"}, {NAME: "mcp:raw"})
    assert "mcp:raw" in withheld[NAME]
    assert before == {NAME: "host"}
    assert left == {}
    assert len(told) == 1


async def test_a_servers_tool_takes_the_place_that_the_host_leaves() -> None:
    """R25: the host's tool was there first, so the server's is withheld, until its name is free."""
    async with serving(host_tool(NAME), mcp_servers=[raw("read")]) as runtime:
        session_id = await new_session(runtime)
        first, withheld = await listed(runtime, session_id)
        await runtime.registry.unregister(NAME)
        second, left = await listed(runtime, session_id)

    assert (first, NAME in withheld) == ({NAME: "host"}, True)
    assert (second, left) == ({NAME: "mcp:raw"}, {})
