"""MCP servers that an editor gives its sessions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from acp import schema

from tests.transports.acp.connected_editor import wired_desk
from tests.transports.acp.editor import Desk
from tests.transports.shop import shop
from toolcrib.runtime.principal import Principal

pytestmark = pytest.mark.slow

PEER = Path(__file__).parents[2] / "mcp_client" / "peer.py"
SERVER = schema.McpServerStdio(
    name="my peer", command=sys.executable, args=[str(PEER), "stdio", "newer"], env=[]
)


async def names(at: Desk, session_id: str) -> set[str]:
    return {each["name"] for each in (await at.ask("tools.list", session_id=session_id))["tools"]}


async def test_the_tools_of_a_server_are_in_the_session_it_was_given_to() -> None:
    """A person approves their calls, and no other session has them."""
    async with wired_desk(shop()) as at:
        session_id = (await at.agent.new_session(cwd="/", mcp_servers=[SERVER])).session_id
        other = await at.open()
        call: dict[str, Any] = {"session_id": session_id, "name": "my_peer_add"}
        arguments = {"a": 2, "b": 3}

        assert "my_peer_add" in await names(at, session_id)
        assert "my_peer_add" not in await names(at, other)
        waiting = await at.ask("tools.call", **call, arguments=arguments)
        assert waiting["status"] == "waiting"
        (await at.question()).choose("allow")
        while (await at.ask("approvals.list", session_id=session_id))["approvals"]:
            pass
        done = await at.ask("tools.call", **call, arguments=arguments, call_id=waiting["call_id"])
        assert done["value"] == {"result": 5}


async def test_a_client_that_may_only_call_tools_starts_no_programs() -> None:
    """A session of such a client opens without its servers."""
    caller = Principal("caller", frozenset({"caller"}))
    async with wired_desk(shop(), who=caller) as at:
        session = await at.agent.new_session(cwd="/", mcp_servers=[SERVER])

        assert session.field_meta is not None
        assert "admin" in session.field_meta["toolcrib"]["unavailableServers"]["my peer"]
        assert "my_peer_add" not in await names(at, session.session_id)


async def test_loading_a_session_that_is_open_mounts_nothing_twice() -> None:
    """A server that the session has already is not started again."""
    async with wired_desk(shop()) as at:
        session_id = (await at.agent.new_session(cwd="/", mcp_servers=[SERVER])).session_id
        before = await names(at, session_id)

        told = await at.agent.load_session(cwd="/", session_id=session_id, mcp_servers=[SERVER])

        assert await names(at, session_id) == before
        assert told.field_meta is None


async def test_servers_are_mounted_again_with_a_session_that_was_closed() -> None:
    """They are left with the session, and come back with it."""
    async with wired_desk(shop()) as at:
        session_id = (await at.agent.new_session(cwd="/", mcp_servers=[SERVER])).session_id
        await at.agent.close_session(session_id=session_id)

        await at.agent.load_session(cwd="/", session_id=session_id, mcp_servers=[SERVER])

        assert "my_peer_add" in await names(at, session_id)


async def test_a_server_that_cannot_be_mounted_does_not_fail_the_session() -> None:
    """The session opens without it, and the editor is told why."""
    gone = schema.McpServerStdio(name="gone", command="/nowhere/at/all", args=[], env=[])
    old = schema.SseMcpServer(type="sse", name="old", url="https://example.org", headers=[])
    away = schema.HttpMcpServer(
        type="http",
        name="away",
        url="http://127.0.0.1:9/mcp",
        headers=[schema.HttpHeader(name="X-Desk", value="7")],
    )
    async with wired_desk(shop()) as at:
        session = await at.agent.new_session(cwd="/", mcp_servers=[gone, away, old])

        assert session.field_meta is not None
        told = session.field_meta["toolcrib"]
        assert "SSE" in told["unavailableServers"]["old"]
        lacking = " ".join(told["unavailableTools"])
        assert "gone" in lacking
        assert "away" in lacking
        assert "greet" in await names(at, session.session_id)
