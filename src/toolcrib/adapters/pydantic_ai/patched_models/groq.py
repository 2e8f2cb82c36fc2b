"""What ran on Groq. Of the tools that Groq lists, pydantic-ai tells only searches."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryImage,
    FilePart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models.groq import GroqModel, GroqStreamedResponse

from toolcrib.adapters.json_fields import json_object_of, mapping_of, mappings_of, plain, text_of
from toolcrib.adapters.pydantic_ai.patched_models.streams import Watched

_NATIVE: Final = {
    "search": "web_search",
    "visit": "web_search",
    "browser_search": "web_search",
    "browser.search": "web_search",
    "browser.open": "web_search",
    "browser.find": "web_search",
    "python": "code_execution",
    "code_interpreter": "code_execution",
}
"""pydantic-ai's names of what Groq runs. To open a page is part of a search, as on OpenAI."""
_LATER: Final = frozenset({"text", "tool-call"})


class WholeGroqModel(GroqModel):
    """Tells every tool that ran."""

    def _process_response(self, response: Any) -> ModelResponse:
        tools = _taken(response.choices[0].message)
        made = super()._process_response(response)
        ran = [part for tool in tools for part in parts_of(tool, self.system)]
        parts = list(made.parts)
        at = next((n for n, part in enumerate(parts) if part.part_kind in _LATER), len(parts))
        made.parts = [*parts[:at], *ran, *parts[at:]]
        return made

    async def _process_streamed_response(self, *args: Any, **facts: Any) -> GroqStreamedResponse:
        made = await super()._process_streamed_response(*args, **facts)
        made.__class__ = _WholeStream
        return made


class _WholeStream(GroqStreamedResponse):
    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        calls: dict[Any, str] = {}

        def noted(chunk: Any) -> Iterator[Any]:
            # A tool is told of when it is called, and again when it is over.
            for choice in chunk.choices[:1]:
                for tool in _taken(choice.delta):
                    self._note(tool, calls)
            yield chunk

        stream: Any = Watched(self._response, noted)
        self._response = stream
        async for event in super()._get_event_iterator():
            yield event

    def _note(self, tool: dict[str, Any], calls: dict[Any, str]) -> None:
        at = tool.get("index")
        for number, part in enumerate(parts_of(tool, self.provider_name, calls.get(at))):
            if isinstance(part, NativeToolCallPart):
                calls[at] = part.tool_call_id
            self._parts_manager.handle_part(vendor_part_id=("executed", at, number), part=part)


def parts_of(
    tool: dict[str, Any], provider: str, call_id: str | None = None
) -> Iterator[ModelResponsePart]:
    """A tool that ran, or that still runs, as parts of a response. Groq gives calls no ids, so the
    call gets one, unless it has one already.
    """
    kind = text_of(tool, "type")
    name = _NATIVE.get(kind) or kind or "unknown"
    arguments = json_object_of(tool, "arguments") or {"input": text_of(tool, "arguments")}
    call = NativeToolCallPart(name, arguments, provider_name=provider)
    call.tool_call_id = call_id or call.tool_call_id
    call.provider_details = {"type": kind}
    yield call
    content = _content(tool)
    if content is not None:
        yield NativeToolReturnPart(name, content, call.tool_call_id, provider_name=provider)
    for result in mappings_of(tool, "code_results"):
        with suppress(ValueError):
            if picture := b64decode(text_of(result, "png")):
                yield FilePart(BinaryImage(picture, media_type="image/png"), id=call.tool_call_id)


def _content(tool: dict[str, Any]) -> Any:
    """What came of a tool, in the richest form there is; None while it runs."""
    found = mapping_of(tool, "search_results")
    if found.get("results") or found.get("images"):
        return found
    if pages := mappings_of(tool, "browser_results"):
        return {"output": tool.get("output"), "results": pages}
    if runs := mappings_of(tool, "code_results"):
        texts = (text_of(run, "text") for run in runs)
        return {"stdout": text_of(tool, "output") or "\n".join(filter(None, texts))}
    return tool.get("output")


def _taken(message: Any) -> list[dict[str, Any]]:
    """The tools that a message tells of, which are then no longer there for pydantic-ai."""
    listed: list[Any] = getattr(message, "executed_tools", None) or []
    message.executed_tools = None
    return [plain(each) for each in listed]
