"""The shop on the pipes of a real process, by MCP, with REST beside it for whoever decides. Its
URL is written to the file that the first argument names.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.transports.http.served_runtime import TOKENS
from tests.transports.shop import shop
from tests.transports.suite import SESSION
from toolcrib.runtime.principal import Principal
from toolcrib.transports.http.server import HttpServer
from toolcrib.transports.mcp import McpOptions, McpServer
from toolcrib.transports.pipes import Pipes, claim_pipes


async def serve(pipes: Pipes, url: Path) -> None:
    runtime = shop()
    who = Principal("owner", frozenset({"admin"}), transport="mcp")
    async with HttpServer(runtime, port=0, tokens=TOKENS) as server:
        await asyncio.to_thread(url.write_text, server.url)
        await McpServer(runtime, McpOptions(session=SESSION), who=who).serve_stdio(pipes)


if __name__ == "__main__":
    asyncio.run(serve(claim_pipes(), Path(sys.argv[1])))
