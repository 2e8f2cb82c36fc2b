"""Recorded traffic, replayed to the real SDKs through pydantic-ai, as items that codecs read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tests.adapters.pydantic_ai.codecs.loopback_server import Loopback, Reply, loopback, model_at
from toolcrib.adapters.items import mapping_of, mappings_of, text_of
from toolcrib.adapters.pydantic_ai.codecs.code_interpreter import CodeInterpreterCodec
from toolcrib.adapters.pydantic_ai.parts import items_of
from toolcrib.adapters.pydantic_ai.patched_models import patch_model
from toolcrib.tools.code_interpreter import CodeInterpreterConfig

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

Items = list[dict[str, Any]]
Json = dict[str, Any]

_COLUMNS = {"openai": "openai-responses", "azure": "openai-responses", "xai": "openai-responses"}
# The SDK warns of recorded models that are no more; what they said is read alike.
_MODELS = {"anthropic": "claude-sonnet-5", "bedrock": "us.amazon.nova-2-lite-v1:0"}


def column(path: Path) -> str:
    """The provider of a recording, as the support matrix calls it."""
    return _COLUMNS.get(path.parent.name, path.parent.name)


@cache
def replayed(path: Path) -> list[Items]:
    """The items of every model response in a recording, a list for each."""
    told = json.loads(path.read_text("utf-8"))
    provider = column(path)
    replies = [reply for each in told["interactions"] for reply in _replies(each, provider)]
    return asyncio.run(_ask(provider, _MODELS.get(provider) or told["models"][0], replies))


@cache
def answered(provider: str, name: str, body: str) -> list[Items]:
    """The items of one response, given as JSON."""
    return asyncio.run(_ask(provider, name, [Reply(body.encode())]))


def bodies(path: Path) -> list[Json]:
    """The responses of a recording that were not streamed, as they came over the wire."""
    told = json.loads(path.read_text("utf-8"))
    return [each["response"] for each in told["interactions"] if each.get("response")]


async def _ask(provider: str, name: str, replies: list[Reply]) -> list[Items]:
    with loopback() as server:
        async with model_at(server.url, provider, name) as original:
            model = patch_model(original)
            settings = cast("ModelSettings", {"max_tokens": 4096, **_settings(provider)})
            return [await _one(model, server, reply, settings) for reply in replies]


def _settings(provider: str) -> Json:
    """What the code interpreter needs, to be told of files."""
    return CodeInterpreterCodec(provider).settings(CodeInterpreterConfig())


async def _one(model: Model, server: Loopback, reply: Reply, settings: ModelSettings) -> Items:
    from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

    server.replies.append(reply)
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart("hello")])]
    parameters = _offering(model)
    if reply.content_type == "application/json":
        response = await model.request(messages, settings, parameters)
    else:
        async with model.request_stream(messages, settings, parameters) as streamed:
            async for _ in streamed:
                pass
            response = streamed.get()
    return [dict(item) for item in items_of(response)]


def _offering(model: Model) -> ModelRequestParameters:
    """Every native tool that the model takes: a call that nobody offered may be passed over."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.native_tools import (
        NATIVE_TOOL_TYPES,
        AdvisorTool,
        CodeExecutionTool,
        FileSearchTool,
        MCPServerTool,
        WebFetchTool,
        WebSearchTool,
    )

    all_tools = [
        AdvisorTool(model="claude-opus-4-8"),
        CodeExecutionTool(),
        FileSearchTool(file_store_ids=["store"]),
        MCPServerTool(id="deepwiki", url="https://mcp.example.org/"),
        WebFetchTool(),
        WebSearchTool(),
        NATIVE_TOOL_TYPES["tool_search"](),
    ]
    taken = model.profile.get("supported_native_tools", frozenset())
    if getattr(model, "canonical_system", "") == "google-cloud":
        taken -= {FileSearchTool}
    return ModelRequestParameters(native_tools=[each for each in all_tools if type(each) in taken])


def _replies(interaction: Json, provider: str) -> Iterator[Reply]:
    response, events = mapping_of(interaction, "response"), mappings_of(interaction, "events")
    if _is_answer(response):
        yield Reply(json.dumps(response).encode())
    for stream in _streams(events):
        # Bedrock streams in a format of its own; none is recorded.
        head = [f"event: {text_of(each, 'type')}\n" if each.get("type") else "" for each in stream]
        lines = [f"data: {json.dumps(each)}\n\n" for each in stream]
        text = "".join(map("".join, zip(head, lines, strict=True)))
        end = "" if provider in ("anthropic", "google") else "data: [DONE]\n\n"
        yield Reply((text + end).encode(), "text/event-stream")


def _is_answer(response: Json) -> bool:
    """Whether a model said it: there are uploads, and APIs that pydantic-ai does not use."""
    is_message = response.get("type") == "message" or response.get("object") == "response"
    return is_message or bool(response.keys() & {"candidates", "choices", "output"})


def _streams(events: Items) -> Iterator[Items]:
    """One list of events may hold several streams, one after the other."""
    stream: Items = []
    for event in events:
        if event.get("type") in ("message_start", "response.created") and stream:
            yield stream
            stream = []
        stream.append(event)
    if stream:
        yield stream
