"""LiteLLM's plain `completion()` and `embedding()`.

Run it: `python -m tests.clients.litellm URL TOKEN`, with litellm installed, against
`tests.clients.demo_provider`. Status 0: every answer was right.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

ADD: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}


def main(url: str, token: str) -> None:
    litellm: Any = import_module("litellm")
    place = {"api_base": url, "api_key": token}

    def complete(text: str, **options: Any) -> Any:
        messages = [{"role": "user", "content": text}]
        return litellm.completion(model="openai/demo", messages=messages, **place, **options)

    answer = complete("hello")
    assert answer.choices[0].message.content == "Heard 1: hello"
    assert answer.usage.total_tokens == 10
    chunks = complete("hello", stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Heard 1: hello"
    called = complete("add", tools=[ADD]).choices[0]
    assert called.finish_reason == "tool_calls"
    assert called.message.tool_calls[0].function.arguments == '{"a": 21}'
    vectors = litellm.embedding(model="openai/all-MiniLM-L6-v2-int8", input=["hello"], **place)
    assert len(vectors.data[0]["embedding"]) == 384


if __name__ == "__main__":
    main(*sys.argv[1:])
