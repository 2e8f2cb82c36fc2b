"""The client of FastMCP, over HTTP."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import os

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport


async def check() -> None:
    """Tools, typed data, an error, progress, a call that waits."""
    token = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with Client(StreamableHttpTransport(os.environ["MCP_URL"], headers=token)) as client:
        assert {"add", "boom", "slow", "order"} <= {tool.name for tool in await client.list_tools()}
        assert (await client.call_tool("add", {"a": 20, "b": 22})).data == {"result": 42}
        assert (await client.call_tool("boom", {}, raise_on_error=False)).is_error
        await client.call_tool("slow", {}, progress_handler=hear)
        waiting = await client.call_tool("order", {"item": "saw"}, raise_on_error=False)
    assert heard[-1] == 4
    assert waiting.content[0].text.startswith("Waiting for approval apr_")
    print("tools, typed data, an error, progress, a call that waits")


if __name__ == "__main__":
    asyncio.run(check())
