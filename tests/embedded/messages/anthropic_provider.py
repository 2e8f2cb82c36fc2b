"""A provider with a backend that does what a test says, and Anthropic's client before it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic

from tests.embedded.scripted_provider import Puppet, Script
from toolcrib.embedded import (
    BackendCallResult,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.embedded.web.folder import WebFolder

Json = dict[str, Any]
SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}
FETCH: Json = {"type": "web_fetch_20250910", "name": "web_fetch"}
PYTHON: Json = {"type": "code_execution_20250522", "name": "code_execution"}
BASH: Json = {"type": "code_execution_20250825", "name": "code_execution"}
CODE: Json = {"type": "code_execution_20260120", "name": "code_execution"}
ADD: Json = {
    "name": "add",
    "description": "Add two numbers.",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
PAGES = {
    "hours.html": "<title>Opening hours</title><h1>Opening hours</h1>"
    "<p>The shop is open until nine.</p>",
    "blog/hours.html": "<title>Notes about hours</title><p>Our opening hours were longer once.</p>",
}


@asynccontextmanager
async def provided(
    script: Script, **options: Any
) -> AsyncGenerator[tuple[AsyncAnthropic, Puppet, EmbeddedProvider]]:
    """A started provider: Anthropic's client, its backend, and itself."""
    puppet = Puppet(script)
    async with EmbeddedProvider(puppet, **options) as provider:
        yield provider.anthropic_client(), puppet, provider


def site(folder: Path) -> WebFolder:
    """The pages of a shop."""
    for name, text in PAGES.items():
        path = folder / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return WebFolder(folder / "site", "https://shop.example")


def results(request: BackendRequest) -> list[BackendCallResult]:
    """The results in a conversation."""
    return [turn for turn in request.history if isinstance(turn, BackendCallResult)]


def calls(*steps: tuple[str, Json], then: str = "Done.") -> Script:
    """A backend that calls one tool after the other, and then says something."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        done = len(results(request))
        if done < len(steps):
            name, arguments = steps[done]
            return [ProposedCall(name, json.dumps(arguments))]
        return [BackendText(then)]

    return script


async def ask(client: AsyncAnthropic, text: str = "Go.", **options: Any) -> Any:
    """A message that answers one question."""
    create: Any = client.messages.create
    request = {"max_tokens": 1000, "messages": [{"role": "user", "content": text}], **options}
    return await create(model="puppet", **request)


async def wire(client: AsyncAnthropic, text: str = "Go.", **options: Any) -> Json:
    """The same as it stands on the wire."""
    create: Any = client.messages.with_raw_response.create
    request = {"max_tokens": 1000, "messages": [{"role": "user", "content": text}], **options}
    return await (await create(model="puppet", **request)).json()


async def events(client: AsyncAnthropic, text: str = "Go.", **options: Any) -> list[Json]:
    """The events of a stream as they stand on the wire."""
    create: Any = client.messages.with_streaming_response.create
    request = {"max_tokens": 1000, "messages": [{"role": "user", "content": text}], **options}
    async with create(model="puppet", stream=True, **request) as raw:
        lines: list[str] = [line async for line in raw.iter_lines()]
    named = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    read = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert named == [event["type"] for event in read], "an event is named by its type"
    return read


def only(message: Any, kind: str) -> Any:
    """The only block of a type."""
    [block] = [each for each in message.content if each.type == kind]
    return block
