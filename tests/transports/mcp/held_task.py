"""A process that says the id of a task which it runs, until it is killed: `STORE` is its file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp import Client

from tests.transports.mcp.connected_client import CALLER, STATELESS, Work, registry_of
from tests.transports.mcp.task_client import TaskExtension, task_of
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import create_runtime
from toolcrib.store.sqlite import SqliteStore
from toolcrib.transports.mcp import McpOptions, McpServer


async def main() -> None:
    store = SqliteStore(Path(sys.argv[1]))
    config = RuntimeConfig(host_tool_registry=registry_of(Work()), store=store)
    async with create_runtime(config) as runtime:
        server = McpServer(runtime, McpOptions(task_after_seconds=0.01), who=CALLER)
        async with Client(server.sdk, mode=STATELESS, extensions=[TaskExtension()]) as client:
            result = await client.call_tool("hold", {"text": "a tree"})
            print(task_of(result)["taskId"], flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
