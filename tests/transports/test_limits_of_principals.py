"""A principal over its limits is refused with one kind on every transport."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2
import pytest
from acp.exceptions import RequestError
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.helpers.patience import PATIENCE
from tests.transports.acp.connected_editor import connected
from tests.transports.test_access_table import maker, piped, runtime_with_tools
from toolcrib.errors import Refused
from toolcrib.runtime.quotas import PrincipalLimits
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.transports.http.server import HttpServer

ADA = maker("ada")
KIND = "too_many_requests"
TOKEN = "the-token-of-ada-1234"


def limited() -> Runtime:
    """A runtime that takes one call of a principal in a minute."""
    config = runtime_with_tools().config
    return create_runtime(replace(config, principal_limits=PrincipalLimits(calls_per_minute=1)))


async def test_over_stdio() -> None:
    """The second call is refused; what is no call is still answered."""
    async with piped(limited(), ADA) as client:
        session = await client.ask("session.create", {})
        call = {"session_id": session["session_id"], "name": "act"}
        await client.ask("tools.call", call)
        with pytest.raises(Refused) as refused:
            await client.ask("tools.call", call)
        await client.ask("session.get", {"session_id": session["session_id"]})

    assert (refused.value.kind, refused.value.facts["retry_after_seconds"]) == (KIND, 60)


async def test_over_acp() -> None:
    """An editor reads the kind in the data of the error."""
    async with limited() as runtime, connected(runtime, ADA) as (_, desk):
        await desk.agent.initialize(protocol_version=1)
        session = await desk.ask("session.create")
        call = {"session_id": session["session_id"], "name": "act"}
        await desk.ask("tools.call", **call)
        with pytest.raises(RequestError) as refused:
            await desk.ask("tools.call", **call)

    data: Any = refused.value.data
    assert data["kind"] == KIND


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_over_mcp(era: str) -> None:
    """A client of MCP gets an error, not a result that a model would take for the tool's."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        limited() as runtime,
        HttpServer(runtime, port=0, tokens=Tokens([Token(TOKEN, ADA)])) as server,
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=era) as client,
    ):
        await client.call_tool("act", {})
        with pytest.raises(MCPError) as refused:
            await client.call_tool("act", {})

    assert refused.value.error.data["kind"] == KIND
