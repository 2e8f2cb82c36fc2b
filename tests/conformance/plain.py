"""A plain server with four tools, which knows nothing of the suite: `python -m
tests.conformance.plain`. It says where it listens, on one line of stdout.
"""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from tests.conformance.fixture import Bearing
from toolcrib import tool
from toolcrib.host_tools import HostToolRegistry, ToolContext
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.tokens import Token, Tokens, new_token
from toolcrib.transports.http import create_app
from toolcrib.transports.mcp import McpServer


@tool(is_read_only=True)
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers.

    Args:
        a: One.
        b: The other.
    """
    return {"total": a + b}


@tool
def boom() -> str:
    """Fail."""
    raise RuntimeError("boom")


@tool
async def count(ctx: ToolContext, steps: int) -> str:
    """Count.

    Args:
        steps: How far.
    """
    for step in range(steps):
        ctx.progress(step + 1, steps)
    return "counted"


@tool(requires_approval=True)
def order(item: str) -> str:
    """Order an item.

    Args:
        item: Its name.
    """
    return f"Ordered {item}."


TOOLS = (add, boom, count, order)


async def main() -> None:
    registry = HostToolRegistry()
    for each in TOOLS:
        registry.add(each)
    runtime = create_runtime(RuntimeConfig(host_tool_registry=registry))
    token = new_token()
    app = create_app(runtime, tokens=Tokens([Token(token)]), mcp=McpServer(runtime))
    listening = socket.create_server(("127.0.0.1", 0))
    async with runtime:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(Bearing(app, token), lifespan="off", log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(main())
