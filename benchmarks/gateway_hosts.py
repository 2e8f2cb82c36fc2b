"""The server behind the gateways, and the gateways, each in a process of its own:
`python gateway_hosts.py NAME UPSTREAM` prints where it is.

All of them run one worker of the same uvicorn, on uvloop and httptools, without a log of accesses.
"""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from quiet import silence
from workload import search

TOKEN = "a-token-of-the-benchmarks"
SERVER = "server"
MEMORY, SQLITE = "toolcrib, memory", "toolcrib, SQLite"
PROXY, SHARED_PROXY = "fastmcp proxy", "fastmcp proxy, shared session"
MANY = "toolcrib, 100 tools"
MANY_SERVERS, TOOLS_OF_EACH = 10, 10


async def _serve_app(app: Any) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="httptools", access_log=False, log_level="warning")
    _say(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
    await uvicorn.Server(config).serve(sockets=[listening])


def _say(url: str) -> None:
    print(url, flush=True)


def plain_server() -> Any:
    """The least that one writes with the SDK."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench", log_level="WARNING")
    server.add_tool(search)
    for number in range(TOOLS_OF_EACH - 1):
        server.add_tool(search, name=f"search_{number}")
    return server


async def _serve_plain(_: str) -> None:
    await _serve_app(plain_server().streamable_http_app())


def _toolcrib(is_durable: bool, servers: int = 1) -> Callable[[str], Coroutine[Any, Any, None]]:
    async def serve(upstream: str) -> None:
        """As a user serves it: nothing is switched off, and every call is written down."""
        from toolcrib import MemoryStore, RuntimeConfig, SqliteStore, create_runtime
        from toolcrib.mcp_client import HttpServerConfig, MountTerms
        from toolcrib.serving.tokens import Token, Tokens
        from toolcrib.transports.http import serve_http

        names = [f"s{number}" for number in range(servers)]
        mounted = [
            HttpServerConfig(
                name=name, terms=MountTerms(prefix=f"{name}_", approval="policy"), url=upstream
            )
            for name in names
        ]
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "s.sqlite3") if is_durable else MemoryStore()
            config = RuntimeConfig(mcp_servers=mounted, store=store)
            async with create_runtime(config) as runtime:
                await serve_http(
                    runtime,
                    port=0,
                    tokens=Tokens([Token(TOKEN)]),
                    on_ready=lambda url: _say(f"{url}/mcp"),
                )

    return serve


def _fastmcp(is_shared: bool) -> Callable[[str], Coroutine[Any, Any, None]]:
    async def serve(upstream: str) -> None:
        from fastmcp import Client
        from fastmcp.server import create_proxy

        if not is_shared:
            await _serve_app(create_proxy(upstream).http_app())
            return
        async with Client(upstream) as connected:
            await _serve_app(create_proxy(connected).http_app())

    return serve


HOSTS: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {
    SERVER: _serve_plain,
    MEMORY: _toolcrib(is_durable=False),
    SQLITE: _toolcrib(is_durable=True),
    MANY: _toolcrib(is_durable=False, servers=MANY_SERVERS),
    PROXY: _fastmcp(is_shared=False),
    SHARED_PROXY: _fastmcp(is_shared=True),
}

if __name__ == "__main__":
    silence()
    os.environ.setdefault("FASTMCP_LOG_LEVEL", "WARNING")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(HOSTS[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else ""))
