"""The official `openai` SDK: Responses, chat completions, conversations, embeddings, files."""

from __future__ import annotations

import io
import json
import os
from typing import Any

from openai import OpenAI
from pydantic import BaseModel

ADD: dict[str, Any] = {
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}


class Total(BaseModel):
    """The answer with a schema."""

    total: int


def check_responses(client: OpenAI) -> None:
    """Blocking, streamed, with a schema, with functions, with hosted tools, in the background."""
    hello = client.responses.create(model="gpt-5", input="Say hello", extra_body={"moderation": {}})
    assert hello.output_text == "Hello from the provider."
    with client.responses.stream(model="gpt-5", input="Say hello") as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_response().output_text == "Hello from the provider."
    assert kinds[0] == "response.created"
    parsed = client.responses.parse(model="gpt-5", input="Structure", text_format=Total)
    assert parsed.output_parsed == Total(total=42)
    function: Any = {"type": "function", "strict": True, **ADD}
    asked = client.responses.create(model="gpt-5", input="Add", tools=[function])
    [call] = [item for item in asked.output if item.type == "function_call"]
    assert json.loads(call.arguments) == {"a": 20, "b": 22}
    told = client.responses.create(
        model="gpt-5",
        previous_response_id=asked.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "42"}],
        tools=[function],
    )
    assert told.output_text == "The sum is 42"
    search: Any = {"type": "web_search"}
    found = client.responses.create(model="gpt-5", input="Search", tools=[search])
    assert any(item.type == "web_search_call" for item in found.output)
    interpreter: Any = {"type": "code_interpreter", "container": {"type": "auto"}}
    computed = client.responses.create(model="gpt-5", input="Compute", tools=[interpreter])
    assert computed.output_text == "It is 42"
    later = client.responses.create(model="gpt-5", input="Say hello", background=True)
    while later.status in ("queued", "in_progress"):
        later = client.responses.retrieve(later.id)
    assert later.output_text == "Hello from the provider."
    print("responses: blocking, stream, parse, functions, web search, code, background")


def check_chat(client: OpenAI) -> None:
    """Blocking, streamed, with a schema, with functions."""
    ask: Any = [{"role": "user", "content": "Say hello"}]
    hello = client.chat.completions.create(model="gpt-5", messages=ask)
    assert hello.choices[0].message.content == "Hello from the provider."
    pieces = client.chat.completions.create(model="gpt-5", messages=ask, stream=True)
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == "Hello from the provider."
    structure: Any = [{"role": "user", "content": "Structure"}]
    parsed = client.chat.completions.parse(model="gpt-5", messages=structure, response_format=Total)
    assert parsed.choices[0].message.parsed == Total(total=42)
    tools: Any = [{"type": "function", "function": ADD}]
    asked: Any = [{"role": "user", "content": "Add"}]
    called = client.chat.completions.create(model="gpt-5", messages=asked, tools=tools)
    [call] = called.choices[0].message.tool_calls or []
    result = {"role": "tool", "tool_call_id": call.id, "content": "42"}
    answer = called.choices[0].message.model_dump(exclude_none=True)
    whole: Any = [*asked, answer, result]
    told = client.chat.completions.create(model="gpt-5", messages=whole, tools=tools)
    assert told.choices[0].message.content == "The sum is 42"
    print("chat completions: blocking, stream, parse, functions")


def check_resources(client: OpenAI) -> None:
    """Conversations, embeddings, uploads, files."""
    conversation = client.conversations.create()
    client.responses.create(model="gpt-5", input="Say hello", conversation=conversation.id)
    items = list(client.conversations.items.list(conversation.id))
    assert [item.type for item in items] == ["message", "message"]
    models = {model.id for model in client.models.list()}
    assert "gpt-5" in models
    embedder = next(name for name in models if "minilm" in name.lower() or "embed" in name.lower())
    vectors = client.embeddings.create(model=embedder, input=["a saw", "a hammer"])
    assert len(vectors.data) == 2
    assert len(vectors.data[0].embedding) > 100
    content = b"A saw costs 19 EUR."
    upload = client.uploads.create(
        bytes=len(content), filename="saw.txt", mime_type="text/plain", purpose="user_data"
    )
    part = client.uploads.parts.create(upload.id, data=io.BytesIO(content))
    file = client.uploads.complete(upload.id, part_ids=[part.id]).file
    assert file is not None
    assert client.files.content(file.id).read() == content
    print("conversations, models, embeddings, uploads, files")


if __name__ == "__main__":
    with OpenAI(base_url=os.environ["PROVIDER_URL"], api_key=os.environ["TOKEN"]) as opened:
        check_responses(opened)
        check_chat(opened)
        check_resources(opened)
