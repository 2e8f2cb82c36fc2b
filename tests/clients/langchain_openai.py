"""langchain-openai in its default mode, chat completions, and its embeddings.

Run it: `python -m tests.clients.langchain_openai URL TOKEN`, with langchain-openai installed,
against `tests.clients.demo_provider`. Status 0: every answer was right.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

ADD: dict[str, Any] = {
    "title": "add",
    "description": "Add two numbers.",
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
}
SUM: dict[str, Any] = {
    "title": "Sum",
    "description": "A sum.",
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
}


def main(url: str, token: str) -> None:
    langchain: Any = import_module("langchain_openai")
    model = langchain.ChatOpenAI(model="demo", base_url=url, api_key=token)
    answer = model.invoke("hello")
    assert (answer.content, answer.usage_metadata["total_tokens"]) == ("Heard 1: hello", 10)
    assert "".join(chunk.content for chunk in model.stream("hello")) == "Heard 1: hello"
    [call] = model.bind_tools([ADD]).invoke("add").tool_calls
    assert (call["name"], call["args"]) == ("add", {"a": 21, "b": 21})
    for method in ("json_schema", "function_calling"):
        assert model.with_structured_output(SUM, method=method).invoke("sum") == {"total": 21}
    embedder = langchain.OpenAIEmbeddings(
        model="all-MiniLM-L6-v2-int8",
        base_url=url,
        api_key=token,
        check_embedding_ctx_length=False,
    )
    assert len(embedder.embed_query("hello")) == 384


if __name__ == "__main__":
    main(*sys.argv[1:])
