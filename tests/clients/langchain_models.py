"""langchain-openai in both of its modes, and the MCP adapters of LangChain."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import os

from langchain_core.tools import tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Total(BaseModel):
    """The answer with a schema."""

    total: int


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def check(uses_responses: bool) -> None:
    """An answer, a stream, a tool call, a structured answer."""
    model = ChatOpenAI(
        model="gpt-5",
        base_url=os.environ["PROVIDER_URL"],
        api_key=os.environ["TOKEN"],
        use_responses_api=uses_responses,
    )
    assert model.invoke("Say hello").text == "Hello from the provider."
    assert "".join(str(piece.text) for piece in model.stream("Say hello")) == (
        "Hello from the provider."
    )
    [call] = model.bind_tools([add]).invoke("Add").tool_calls
    assert (call["name"], call["args"]) == ("add", {"a": 20, "b": 22})
    structured = model.with_structured_output(Total, method="json_schema")
    assert structured.invoke("Structure") == Total(total=42)
    mode = "responses" if uses_responses else "chat completions (the default)"
    print(f"{mode}: an answer, a stream, a tool, a structured answer")


async def check_mcp() -> None:
    """The tools of the MCP server."""
    token = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    desk = {"transport": "streamable_http", "url": os.environ["MCP_URL"], "headers": token}
    tools = {each.name: each for each in await MultiServerMCPClient({"desk": desk}).get_tools()}
    assert "42" in str(await tools["add"].ainvoke({"a": 20, "b": 22}))
    print("langchain-mcp-adapters: a tool of the server")


if __name__ == "__main__":
    check(uses_responses=False)
    check(uses_responses=True)
    asyncio.run(check_mcp())
