"""The server that the conformance suite tries: `python -m tests.conformance.fixture LEDGERS`.

It says where it listens, on one line of stdout, and serves until it is ended. LEDGERS is a SQLite
file, from which it shows what was called.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.subscriptions import PromptsListChanged

from tests.conformance.fixture_client_requests import ASKING_TOOLS
from tests.conformance.fixture_extras import extend
from tests.conformance.fixture_tasks import TASK_AFTER_SECONDS, TASK_TOOLS
from tests.conformance.fixture_tools import PLAIN_TOOLS, tool, tool_change
from toolcrib.host_tools import HostToolRegistry, ToolContext
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.tokens import Token, Tokens, new_token
from toolcrib.store.sqlite import SqliteStore
from toolcrib.transports.http import create_app
from toolcrib.transports.mcp import McpOptions, McpServer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolcrib.store.store import Store


class Bearing:
    """Adds the token to every request, since the suite has no way to be told one."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._header = (b"authorization", f"Bearer {token}".encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], self._header]
        await self._app(scope, receive, send)


def server_of(store: Store) -> McpServer:
    registry = HostToolRegistry()
    for each in (*PLAIN_TOOLS, *ASKING_TOOLS, *TASK_TOOLS, tool_change(registry)):
        registry.add(each)
    runtime = create_runtime(RuntimeConfig(host_tool_registry=registry, store=store))
    options = McpOptions(name="toolcrib-conformance", task_after_seconds=TASK_AFTER_SECONDS)
    server = McpServer(runtime, options)
    extend(server)

    async def trigger(input: dict[str, Any], context: ToolContext) -> str:
        await server.publish(PromptsListChanged())
        return "The prompts have changed."

    registry.add(tool("test_trigger_prompt_change", trigger))
    return server


async def main() -> None:
    store = SqliteStore(Path(sys.argv[1]))
    server = server_of(store)
    token = new_token()
    app = Bearing(create_app(server.runtime, tokens=Tokens([Token(token)]), mcp=server), token)
    listening = socket.create_server(("127.0.0.1", 0))
    async with server.runtime:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(app, lifespan="off", log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(main())
