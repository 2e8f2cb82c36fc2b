"""fastmcp: the server called directly, and through its in-memory client."""

import json
from contextlib import AsyncExitStack
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.server.middleware import Middleware
from harness import Call, Variant
from workload import search


def _server(*middleware: Middleware) -> FastMCP:
    server = FastMCP("bench", middleware=list(middleware))
    server.tool(search)
    return server


def _server_call(server: FastMCP) -> Call:
    async def call(payload: bytes) -> str:
        result = await server.call_tool("search", json.loads(payload))
        return result.content[0].text

    return call


async def _client_call(stack: AsyncExitStack, server: FastMCP) -> Call:
    client = await stack.enter_async_context(Client(server))

    async def call(payload: bytes) -> str:
        result = await client.call_tool("search", json.loads(payload))
        return result.content[0].text

    return call


class _Middleware(Middleware):
    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


async def variants(stack: AsyncExitStack) -> list[Variant]:
    """Without hooks."""
    return [
        Variant("fastmcp", "server.call_tool", _server_call(_server())),
        Variant("fastmcp", "in-memory client", await _client_call(stack, _server())),
    ]


async def hooked(stack: AsyncExitStack) -> list[Variant]:
    """With middleware around the call."""
    call = _server_call(_server(_Middleware()))
    client_call = await _client_call(stack, _server(_Middleware()))
    return [
        Variant("fastmcp", "server.call_tool + middleware", call),
        Variant("fastmcp", "in-memory client + middleware", client_call),
    ]
