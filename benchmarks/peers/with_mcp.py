"""mcp, the official SDK: its in-memory client."""

import json
from contextlib import AsyncExitStack
from typing import Any

from harness import Call, Variant
from mcp import Client
from mcp.server.mcpserver import MCPServer
from workload import search


async def _client_call(stack: AsyncExitStack, mode: str, *middleware: Any) -> Call:
    server = MCPServer("bench", middleware=middleware)
    server.add_tool(search)
    client = await stack.enter_async_context(Client(server, mode=mode))

    async def call(payload: bytes) -> str:
        result = await client.call_tool("search", json.loads(payload))
        return result.content[0].text

    return call


async def _middleware(ctx: Any, call_next: Any) -> Any:
    return await call_next(ctx)


async def variants(stack: AsyncExitStack) -> list[Variant]:
    """Without hooks: the default mode, and the one that frames every message."""
    return [
        Variant("mcp", "in-memory client", await _client_call(stack, "auto")),
        Variant("mcp", "in-memory client (streams)", await _client_call(stack, "legacy")),
    ]


async def hooked(stack: AsyncExitStack) -> list[Variant]:
    """With middleware around the call."""
    call = await _client_call(stack, "auto", _middleware)
    return [Variant("mcp", "in-memory client + middleware", call)]
