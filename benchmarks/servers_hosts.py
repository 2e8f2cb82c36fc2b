"""The servers, each in a process of its own: `python servers_hosts.py NAME` prints where it is.

All of them run one worker of the same uvicorn, on uvloop and httptools, without a log of accesses.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import uvicorn
import uvloop
from quiet import silence
from workload import search

TOKEN = "a-token-of-the-benchmarks"
ECHO, OURS, OUR_MCP = "echo", "toolcrib", "toolcrib mcp"
FASTMCP, MCP, MCP_SESSIONS = "fastmcp", "mcp", "mcp sessions"


def _echo() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def echo(request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    return Starlette(routes=[Route("/echo", echo, methods=["POST"])])


def _fastmcp() -> Any:
    from fastmcp import FastMCP

    server = FastMCP("bench")
    server.tool(search)
    return server.http_app(stateless_http=True, json_response=True)


def _mcp(*, is_stateless: bool) -> Any:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench", log_level="WARNING")
    server.add_tool(search)
    return server.streamable_http_app(stateless_http=is_stateless, json_response=is_stateless)


async def _serve_app(app: Any) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="httptools", access_log=False, log_level="warning")
    _say(f"http://127.0.0.1:{listening.getsockname()[1]}")
    await uvicorn.Server(config).serve(sockets=[listening])


async def _serve_ours() -> None:
    """As a user serves it: nothing is switched off, and every call is written down."""
    from toolcrib import tool
    from toolcrib.host_tools import HostToolRegistry
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import create_runtime
    from toolcrib.serving.tokens import Token, Tokens
    from toolcrib.transports.http import serve_http

    registry = HostToolRegistry()
    registry.add(tool(search))
    config = RuntimeConfig(host_tool_registry=registry, max_sessions=2_000)
    async with create_runtime(config) as runtime:
        await serve_http(runtime, port=0, tokens=Tokens([Token(TOKEN)]), on_ready=_say)


def _say(url: str) -> None:
    print(url, flush=True)


HOSTS: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
    ECHO: lambda: _serve_app(_echo()),
    OURS: _serve_ours,
    OUR_MCP: _serve_ours,
    FASTMCP: lambda: _serve_app(_fastmcp()),
    MCP: lambda: _serve_app(_mcp(is_stateless=True)),
    MCP_SESSIONS: lambda: _serve_app(_mcp(is_stateless=False)),
}

if __name__ == "__main__":
    silence()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(HOSTS[sys.argv[1]]())
