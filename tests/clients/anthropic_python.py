"""The official `anthropic` SDK: messages, streams, client tools and server tools."""

from __future__ import annotations

import os
from typing import Any

from anthropic import Anthropic

MODEL = "written"


def ask(client: Anthropic, text: str, **more: Any) -> Any:
    """One message of the user, answered."""
    messages: Any = [{"role": "user", "content": text}]
    create: Any = client.messages.create
    return create(model=MODEL, max_tokens=1000, messages=messages, **more)


def check(client: Anthropic) -> None:
    """Every kind of answer."""
    assert ask(client, "Say hello").content[0].text == "Hello from the provider."
    with client.messages.stream(
        model=MODEL, max_tokens=1000, messages=[{"role": "user", "content": "Say hello"}]
    ) as stream:
        assert "".join(stream.text_stream) == "Hello from the provider."
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    tools = [{"name": "add", "description": "Add two numbers.", "input_schema": schema}]
    called = ask(client, "Add", tools=tools)
    [use] = [block for block in called.content if block.type == "tool_use"]
    assert (called.stop_reason, use.input) == ("tool_use", {"a": 20, "b": 22})
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "42"}
    messages: Any = [
        {"role": "user", "content": "Add"},
        {"role": "assistant", "content": [block.model_dump() for block in called.content]},
        {"role": "user", "content": [result]},
    ]
    create: Any = client.messages.create
    told = create(model=MODEL, max_tokens=1000, messages=messages, tools=tools)
    assert told.content[-1].text == "The sum is 42"
    found = ask(client, "Search", tools=[{"type": "web_search_20250305", "name": "web_search"}])
    assert [block.type for block in found.content][:2] == [
        "server_tool_use",
        "web_search_tool_result",
    ]
    counted = client.messages.count_tokens(
        model=MODEL, messages=[{"role": "user", "content": "Say hello"}]
    )
    assert counted.input_tokens > 0
    print("messages: blocking, stream, client tools, web search, count of tokens")


if __name__ == "__main__":
    address = os.environ["PROVIDER_URL"].removesuffix("/v1")
    with Anthropic(base_url=address, api_key=os.environ["TOKEN"]) as opened:
        check(opened)
