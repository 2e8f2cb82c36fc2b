"""The patch of pydantic-ai's Gemini model.

pydantic-ai fails at parts and at hosted tools that it does not know, and cannot match a result to
its call where neither has an id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from google.genai.types import Part
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.google import GeminiStreamedResponse, GoogleModel

from toolcrib.adapters.items import mapping_of, plain, text_of
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    PatchedModel,
    add_part,
    filter_stream,
)
from toolcrib.adapters.pydantic_ai.patched_models.unknown_content import UnknownContent

_TOOLS: Final = frozenset({"FILE_SEARCH", "GOOGLE_SEARCH_WEB", "MEDIA_PROCESSING", "URL_CONTEXT"})
_NATIVE: Final = {"GOOGLE_SEARCH_IMAGE": "web_search"}
_PARTS: Final = ("executable_code", "text", "function_call", "inline_data", "thought_signature")
_AFTER_CALLS: Final = frozenset({"text", "tool-call"})


class PatchedGoogleModel(PatchedModel, GoogleModel):
    """Keeps every part of a response."""

    def read_response(self, response: Any, parse: Callable[[Any], ModelResponse]) -> ModelResponse:
        """The response with every part of the provider's."""
        unknown = GeminiUnknownParts(self.system)
        extracted = list(unknown.extract(response))
        reply = parse(response)
        parts = list(reply.parts)
        kinds = [part.part_kind for part in parts]
        place = next((n for n, kind in enumerate(kinds) if kind in _AFTER_CALLS), len(parts))
        reply.parts = [*parts[:place], *extracted, *parts[place:]]
        unknown.attach(reply)
        return reply

    def read_stream(self, streamed: StreamedResponse) -> None:
        """Take unknown parts out of the stream and add parts for them."""
        if not isinstance(streamed, GeminiStreamedResponse):
            return
        unknown = GeminiUnknownParts(self.system)

        def known_chunk(chunk: Any) -> Iterator[Any]:
            for part in unknown.extract(chunk):
                add_part(streamed, part)
            yield chunk

        filter_stream(streamed, known_chunk, lambda: unknown.attach(streamed))


class GeminiUnknownParts(UnknownContent):
    """Parts that pydantic-ai does not know."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._open_ids: dict[str, str] = {}
        self._has_run_code = False

    def extract(self, response: Any) -> Iterator[ModelResponsePart]:
        """Take the unknown parts out of a response, and give calls and results their ids."""
        for candidate in (response.candidates or ())[:1]:
            parts: list[Any] = (candidate.content and candidate.content.parts) or []
            for index, part in enumerate(parts):
                self._identify(part)
                self._has_run_code = self._has_run_code or part.executable_code is not None
                if not self._is_known(part):
                    # Citations count parts, so an empty text, which is ignored, stays in place.
                    parts[index] = Part(text="")
                    yield from self._read(part)

    def _is_known(self, part: Any) -> bool:
        tool = part.tool_call or part.tool_response
        if tool is not None:
            return _word(tool.tool_type) in _TOOLS
        if part.code_execution_result is not None:
            return self._has_run_code
        return any(getattr(part, name, None) is not None for name in _PARTS)

    def _identify(self, part: Any) -> None:
        """Give a call without an id one, and the next result without an id the same."""
        if part.tool_call is not None and not part.tool_call.id:
            call_id = NativeToolCallPart("").tool_call_id
            part.tool_call.id = self._open_ids[_word(part.tool_call.tool_type)] = call_id
        if part.tool_response is not None and not part.tool_response.id:
            part.tool_response.id = self._open_ids.pop(_word(part.tool_response.tool_type), None)

    def _read(self, part: Any) -> Iterator[ModelResponsePart]:
        content = plain(part)
        if part.tool_call is not None:
            arguments: dict[str, Any] = part.tool_call.args or {}
            name, call_id = _name(part.tool_call), part.tool_call.id
            yield NativeToolCallPart(name, arguments, call_id, provider_name=self.provider)
        elif part.tool_response is not None:
            result: dict[str, Any] = part.tool_response.response or {}
            name, call_id = _name(part.tool_response), part.tool_response.id or ""
            yield NativeToolReturnPart(name, result, call_id, provider_name=self.provider)
        elif part.code_execution_result is not None:
            # The code ran in an earlier response.
            result = {**mapping_of(content, "codeExecutionResult")}
            call_id = text_of(result, "id") or NativeToolCallPart("").tool_call_id
            yield NativeToolReturnPart(
                "code_execution", result, call_id, provider_name=self.provider
            )
        else:
            self.keep({"type": next(iter(content), "part"), **content})


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))


def _name(tool: Any) -> str:
    word = _word(tool.tool_type)
    return _NATIVE.get(word) or word.lower()
