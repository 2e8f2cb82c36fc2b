"""The patch of pydantic-ai's Groq model.

Of the tools that Groq ran, pydantic-ai keeps only searches.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryImage,
    FilePart,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.groq import GroqModel

from toolcrib.adapters.items import json_object_of, mapping_of, mappings_of, plain, text_of
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    PatchedModel,
    add_part,
    filter_stream,
)
from toolcrib.adapters.pydantic_ai.patched_models.stream_filter import StreamFilter
from toolcrib.adapters.pydantic_ai.patched_models.unknown_content import WireCalls

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
"""pydantic-ai's names of Groq's tools. Opening a page is part of a search, as on OpenAI."""
_AFTER_CALLS: Final = frozenset({"text", "tool-call"})


class PatchedGroqModel(PatchedModel, GroqModel):
    """Keeps every tool that ran."""

    def read_response(self, response: Any, parse: Callable[[Any], ModelResponse]) -> ModelResponse:
        """The response with the parts of all executed tools."""
        tools = _extract_tools(response.choices[0].message)
        reply = parse(response)
        executed: list[ModelResponsePart] = []
        wire = WireCalls()
        for tool in tools:
            call, *rest = parts_of(tool, self.system)
            wire.call(getattr(call, "tool_call_id", ""), tool)
            executed += [call, *rest]
        parts = list(reply.parts)
        kinds = [part.part_kind for part in parts]
        place = next((n for n, kind in enumerate(kinds) if kind in _AFTER_CALLS), len(parts))
        reply.parts = [*parts[:place], *executed, *parts[place:]]
        wire.attach(reply)
        return reply

    def read_stream(
        self, streamed: StreamedResponse, parse: Callable[[Any], ModelResponse]
    ) -> None:
        """Add the parts of executed tools. Groq sends a tool when it starts and when it ends."""
        filter_stream(streamed, GroqChunks(streamed, self.system))


class GroqChunks(StreamFilter):
    """The chunks of one stream, without executed tools."""

    def __init__(self, streamed: StreamedResponse, provider: str) -> None:
        super().__init__()
        self._streamed = streamed
        self._provider = provider
        self._call_ids: dict[Any, str] = {}
        self._wire = WireCalls()
        self._is_over = False
        self._is_counted = False

    def is_unique(self, event: Any) -> bool:
        return True

    def expand(self, event: Any) -> Iterator[Any]:
        has_usage = getattr(getattr(event, "x_groq", None), "usage", None) is not None
        # Whatever follows the end, but for the first usage, is a repetition.
        if self._is_over and (self._is_counted or not has_usage):
            return
        self._is_counted = self._is_counted or has_usage
        for choice in (event.choices or ())[:1]:
            self._is_over = self._is_over or choice.finish_reason is not None
            for tool in _extract_tools(choice.delta):
                self._add_parts(tool)
        yield event

    def at_end(self) -> None:
        self._wire.attach(self._streamed)

    def _add_parts(self, tool: dict[str, Any]) -> None:
        index = tool.get("index")
        for number, part in enumerate(parts_of(tool, self._provider, self._call_ids.get(index))):
            if isinstance(part, NativeToolCallPart):
                self._call_ids[index] = part.tool_call_id
                self._wire.call(part.tool_call_id, tool)
            add_part(self._streamed, part, ("executed", index, number))


def parts_of(
    tool: dict[str, Any], provider: str, call_id: str | None = None
) -> Iterator[ModelResponsePart]:
    """An executed or running tool as parts of a response.

    Groq's calls have no ids: the call gets a new one unless `call_id` is known.
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
    """The result of a tool in its richest form; None while it runs."""
    search = mapping_of(tool, "search_results")
    if search.get("results") or search.get("images"):
        return search
    if pages := mappings_of(tool, "browser_results"):
        return {"output": tool.get("output"), "results": pages}
    if runs := mappings_of(tool, "code_results"):
        texts = (text_of(run, "text") for run in runs)
        return {"stdout": text_of(tool, "output") or "\n".join(filter(None, texts))}
    return tool.get("output")


def _extract_tools(message: Any) -> list[dict[str, Any]]:
    """Take the executed tools out of a message, so that pydantic-ai does not read them as well."""
    tools: list[Any] = getattr(message, "executed_tools", None) or []
    message.executed_tools = None
    return [plain(tool) for tool in tools]
