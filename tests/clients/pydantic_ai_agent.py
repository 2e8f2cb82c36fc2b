"""pydantic-ai: agents on Responses, on chat completions, and with the MCP server's tools."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import os

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


async def check() -> None:
    """An answer and a tool call of each kind of model; a tool of the MCP server."""
    provider = OpenAIProvider(base_url=os.environ["PROVIDER_URL"], api_key=os.environ["TOKEN"])
    for kind in (OpenAIResponsesModel, OpenAIChatModel):
        agent = Agent(kind("gpt-5", provider=provider))

        @agent.tool_plain
        def add(a: int, b: int) -> int:  # pyright: ignore[reportUnusedFunction]
            """Add two numbers."""
            return a + b

        assert (await agent.run("Say hello")).output == "Hello from the provider."
        assert (await agent.run("Add")).output == "The sum is 42"
        print(f"{kind.__name__}: an answer, a tool")
    token = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    server = MCPToolset(os.environ["MCP_URL"], headers=token)
    with_server = Agent(OpenAIResponsesModel("gpt-5", provider=provider), toolsets=[server])
    async with with_server:
        assert "42" in (await with_server.run("Add")).output
    print("MCPToolset: a tool of the server")


if __name__ == "__main__":
    asyncio.run(check())
