"""The suite over MCP by Streamable HTTP, with a handshake and without."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import OWNERS, TOKENS
from tests.transports.mcp.shop_client import OverMcp
from tests.transports.shop import shop
from tests.transports.suite import SESSION, Driver, Opened, column
from toolcrib.transports.http.server import HttpServer

HEADERS = {"Authorization": f"Bearer {OWNERS}", "Toolcrib-Session": SESSION}


def opened_by(protocol: str) -> Opened:
    @asynccontextmanager
    async def opened(has_model: bool) -> AsyncGenerator[Driver]:
        async with (
            shop() as runtime,
            HttpServer(runtime, port=0, tokens=TOKENS) as server,
            httpx2.AsyncClient(base_url=server.url, headers=HEADERS, timeout=PATIENCE) as client,
        ):
            transport = streamable_http_client(f"{server.url}/mcp", http_client=client)
            async with Client(transport, mode=protocol) as mcp:
                driver = OverMcp(mcp, client)
                await driver.ask("session.create", {"session_id": SESSION})
                yield driver

    return opened


column("mcp-http", opened_by("legacy"), "calls")
column("mcp-http-stateless", opened_by("2026-07-28"), "calls")
