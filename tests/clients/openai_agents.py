"""openai-agents: hosted tools, function tools, conversations, and the MCP server's tools."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import os

from agents import (
    Agent,
    CodeInterpreterTool,
    OpenAIChatCompletionsModel,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
)
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def check(client: AsyncOpenAI) -> None:
    """An answer, tools of both kinds, a session that the provider keeps, chat completions, MCP."""
    model = OpenAIResponsesModel("gpt-5", client)
    interpreter = CodeInterpreterTool(
        tool_config={"type": "code_interpreter", "container": {"type": "auto"}}
    )
    for text, tools, answer in (
        ("Say hello", [], "Hello from the provider."),
        ("Add", [add], "The sum is 42"),
        ("Compute", [interpreter], "It is 42"),
    ):
        done = await Runner.run(Agent("desk", model=model, tools=tools), text)
        assert done.final_output == answer, done.final_output
    found = await Runner.run(Agent("desk", model=model, tools=[WebSearchTool()]), "Search")
    assert "A saw costs" in found.final_output
    print("responses: an answer, a function, code interpreter, web search")
    session = OpenAIConversationsSession(openai_client=client)
    await Runner.run(Agent("desk", model=model), "Say hello", session=session)
    assert len(await session.get_items()) == 2
    print("OpenAIConversationsSession: two items")
    chat = OpenAIChatCompletionsModel("gpt-5", client)
    done = await Runner.run(Agent("desk", model=chat, tools=[add]), "Add")
    assert done.final_output == "The sum is 42"
    print("chat completions: a function")
    token = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    async with MCPServerStreamableHttp({"url": os.environ["MCP_URL"], "headers": token}) as server:
        done = await Runner.run(Agent("desk", model=model, mcp_servers=[server]), "Add")
    assert "42" in done.final_output
    print("MCPServerStreamableHttp: a tool of the server")


async def main() -> None:
    """With one client."""
    set_tracing_disabled(True)
    async with AsyncOpenAI(
        base_url=os.environ["PROVIDER_URL"], api_key=os.environ["TOKEN"]
    ) as client:
        await check(client)


if __name__ == "__main__":
    asyncio.run(main())
