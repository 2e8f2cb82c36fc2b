"""The official MCP SDK for Python, over HTTP and stdio, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, Literal

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

MODES: tuple[Literal["auto", "legacy"], ...] = ("auto", "legacy")


async def check(client: Client) -> None:
    """Tools, a structured result, an error, invalid arguments, progress, a call that waits."""
    names = {tool.name for tool in (await client.list_tools()).tools}
    assert {"add", "boom", "slow", "order"} <= names
    assert (await client.list_resource_templates()).resource_templates == []
    summed = await client.call_tool("add", {"a": 20, "b": 22})
    assert summed.structured_content == {"result": 42}
    assert (await client.call_tool("boom", {})).is_error
    assert (await client.call_tool("add", {"a": "x", "b": 1})).is_error
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    assert not (await client.call_tool("slow", {}, progress_callback=hear)).is_error
    assert heard[-1] == 4
    waiting: Any = await client.call_tool("order", {"item": "saw"})
    assert waiting.content[0].text.startswith("Waiting for approval apr_")


async def main() -> None:
    """Every transport and era."""
    token = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    for mode in MODES:
        async with (
            httpx2.AsyncClient(headers=token) as http,
            Client(
                streamable_http_client(os.environ["MCP_URL"], http_client=http), mode=mode
            ) as client,
        ):
            await check(client)
        print(f"HTTP, {mode}: tools, errors, progress, a call that waits")
        toolcrib = "from toolcrib.cli import main; main()"
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-c", toolcrib, "mcp", "--host-tools-module", "tests.clients.desk_tools"],
            env={"PYTHONPATH": os.environ["PYTHONPATH"]},
        )
        async with Client(stdio_client(parameters), mode=mode) as client:
            await check(client)
        print(f"stdio, {mode}: tools, errors, progress, a call that waits")


if __name__ == "__main__":
    asyncio.run(main())
