"""The Messages API before each kind of backend, under any of its names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.embedded.backends.chat_server import chat_server
from tests.embedded.messages.anthropic_provider import PYTHON, SEARCH, ask, only, provided, site
from tests.embedded.scripted_provider import scripted
from tests.helpers.patience import PATIENCE
from toolcrib.embedded import (
    BackendCallResult,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.embedded.backends.chat import ChatBackend

SCENARIO = """
name: shop
turns:
  - steps:
      - calls: [{tool: web_search, arguments: {query: open until nine}}]
      - calls: [{tool: python, arguments: {code: "print(6 * 7)"}}]
      - say: "Open until nine {{ cite web_search 0 }}, {{ python.json }}."
  - when: again
    steps:
      - say: "Still {{ python.json }}."
"""


async def test_a_scenario_answers_both_apis(tmp_path: Path) -> None:
    """One scenario, two APIs: the same tools run, and the facts of an earlier turn go on."""
    backend = scripted(SCENARIO)
    async with EmbeddedProvider(backend, web=[site(tmp_path)]) as provider:
        client = provider.anthropic_client()
        create: Any = client.messages.create
        turns: list[Any] = [{"role": "user", "content": "When?"}]
        options: Any = {"model": "shop", "max_tokens": 99, "tools": [SEARCH, PYTHON]}
        first = await create(messages=turns, **options)
        turns += [{"role": "assistant", "content": first.content}]
        turns += [{"role": "user", "content": "Say it again."}]
        second = await create(messages=turns, **options)
        tools: Any = [
            {"type": "web_search"},
            {"type": "code_interpreter", "container": {"type": "auto"}},
        ]
        other = await provider.client().responses.create(model="shop", input="When?", tools=tools)
    text = "".join(block.text for block in first.content if block.type == "text")
    assert text == "Open until nine, 42."
    assert second.content[0].text == "Still 42."
    assert other.output_text.endswith(", 42.")


async def test_a_chat_endpoint_reads_pictures_and_results() -> None:
    """What a message holds reaches the endpoint in its own form."""
    with chat_server() as endpoint:
        endpoint.says({"content": "A picture."})
        backend = ChatBackend("small", base_url=endpoint.base_url, api_key="none")
        async with EmbeddedProvider(backend, aliases={"claude-opus-5": "small"}) as provider:
            client = provider.anthropic_client()
            source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
            image = {"type": "image", "source": source}
            content = [{"type": "tool_result", "tool_use_id": "t1", "content": [image]}, image]
            turns: Any = [
                {"role": "user", "content": "Look."},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "see", "input": {}}],
                },
                {"role": "user", "content": content},
            ]
            create: Any = client.messages.create
            message = await create(model="claude-opus-5", max_tokens=99, messages=turns)
            names = [model.id async for model in client.models.list()]
    assert message.content[0].text == "A picture."
    sent = str(endpoint.requests[-1]["messages"])
    assert sent.count("data:image/png;base64,iVBORw0KGgo=") == 2
    assert names == ["small", "claude-opus-5"]


async def test_a_picture_is_refused_by_a_model_that_does_not_see() -> None:
    """A model must not answer as if it had seen it."""
    async with provided(lambda _: [BackendText("A cat.")]) as (client, puppet, _):
        puppet.reads_images = False
        source = {"type": "url", "url": "https://shop.example/cat.png"}
        blocks: Any = [{"type": "image", "source": source}]
        with pytest.raises(anthropic.BadRequestError, match="does not read images"):
            await ask(client, messages=[{"role": "user", "content": blocks}])
    assert puppet.requests == []


async def test_a_picture_of_a_client_tool_is_part_of_its_result() -> None:
    """The backend gets it with the result."""
    async with provided(lambda _: [ProposedCall("see", "{}")]) as (client, puppet, _):
        tool: Any = {"name": "see", "input_schema": {"type": "object"}}
        first = await ask(client, tools=[tool])
        use = only(first, "tool_use")
        source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
        result = [{"type": "text", "text": "Here."}, {"type": "image", "source": source}]
        turns: Any = [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": first.content},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": use.id, "content": result}],
            },
        ]
        await ask(client, messages=turns, tools=[tool])
    last = puppet.requests[-1].history[-1]
    assert isinstance(last, BackendCallResult)
    assert last.images == ("data:image/png;base64,iVBORw0KGgo=",)


class Patient:
    """A backend that says a word and then waits for good."""

    name, is_scripted = "patient", False

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.has_ended = asyncio.Event()

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        yield BackendText("Well")
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.has_ended.set()

    async def aclose(self) -> None: ...


@pytest.mark.parametrize("is_streamed", [False, True], ids=["blocking", "streamed"])
async def test_a_client_that_leaves_ends_its_message(is_streamed: bool) -> None:
    """Nothing goes on for a client that is gone."""
    backend = Patient()
    async with EmbeddedProvider(backend) as provider, asyncio.timeout(PATIENCE):
        create: Any = provider.anthropic_client().messages.create
        asked = [{"role": "user", "content": "Go."}]
        request = {"model": "patient", "max_tokens": 9, "messages": asked}
        if is_streamed:
            stream = await create(**request, stream=True)
            await backend.has_begun.wait()
            await stream.close()
        else:
            task = asyncio.ensure_future(create(**request))
            await backend.has_begun.wait()
            task.cancel()
        await backend.has_ended.wait()
