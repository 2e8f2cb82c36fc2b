"""What Gemini says. pydantic-ai fails at parts, and at tools of the provider's, that it does not
know, and cannot tell which result belongs to which call where neither has an id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from google.genai.types import Part
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.google import GeminiStreamedResponse, GoogleModel

from toolcrib.adapters.json_fields import mapping_of, plain, text_of
from toolcrib.adapters.pydantic_ai.parts import UNREAD
from toolcrib.adapters.pydantic_ai.patched_models.streams import Watched

_TOOLS: Final = frozenset({"FILE_SEARCH", "GOOGLE_SEARCH_WEB", "MEDIA_PROCESSING", "URL_CONTEXT"})
_NATIVE: Final = {"GOOGLE_SEARCH_IMAGE": "web_search"}
_PARTS: Final = ("executable_code", "text", "function_call", "inline_data", "thought_signature")
_LATER: Final = frozenset({"text", "tool-call"})


class WholeGoogleModel(GoogleModel):
    """Tells every part of an answer."""

    def _process_response(self, response: Any, *args: Any, **facts: Any) -> ModelResponse:
        odd = Odd(self.system)
        found = list(odd.taken(response))
        made = super()._process_response(response, *args, **facts)
        parts = list(made.parts)
        at = next((n for n, part in enumerate(parts) if part.part_kind in _LATER), len(parts))
        made.parts = [*parts[:at], *found, *parts[at:]]
        made.provider_details = {**(made.provider_details or {}), **odd.unread}
        return made

    async def _process_streamed_response(self, *args: Any, **facts: Any) -> StreamedResponse:
        made = await super()._process_streamed_response(*args, **facts)
        if isinstance(made, GeminiStreamedResponse):
            made.__class__ = _WholeStream
        return made


class _WholeStream(GeminiStreamedResponse):
    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        odd = Odd(self.provider_name)

        def known(chunk: Any) -> Iterator[Any]:
            for part in odd.taken(chunk):
                self._parts_manager.handle_part(vendor_part_id=None, part=part)
            yield chunk

        stream: Any = Watched(self._response, known)
        self._response = stream
        async for event in super()._get_event_iterator():
            yield event
        self.provider_details = {**(self.provider_details or {}), **odd.unread}


class Odd:
    """Parts that pydantic-ai does not know: calls and their results become parts all the same, and
    the others are kept as they are.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._others: list[dict[str, Any]] = []
        self._nameless: dict[str, str] = {}
        self._has_run = False

    @property
    def unread(self) -> Mapping[str, Any]:
        """What goes with the response, because it is no part of it."""
        return {UNREAD: self._others} if self._others else {}

    def taken(self, response: Any) -> Iterator[ModelResponsePart]:
        """Take out of a response what pydantic-ai does not know, and give calls their ids."""
        for candidate in (response.candidates or ())[:1]:
            parts: list[Any] = (candidate.content and candidate.content.parts) or []
            for at, part in enumerate(parts):
                self._identify(part)
                self._has_run = self._has_run or part.executable_code is not None
                if not self._is_known(part):
                    # An empty text is passed over, and places in the answer count all parts.
                    parts[at] = Part(text="")
                    yield from self._read(part)

    def _is_known(self, part: Any) -> bool:
        tool = part.tool_call or part.tool_response
        if tool is not None:
            return _word(tool.tool_type) in _TOOLS
        if part.code_execution_result is not None:
            return self._has_run
        return any(getattr(part, name, None) is not None for name in _PARTS)

    def _identify(self, part: Any) -> None:
        """Give a call without an id one, and the next result without an id the same."""
        if part.tool_call is not None and not part.tool_call.id:
            made = NativeToolCallPart("").tool_call_id
            part.tool_call.id = self._nameless[_word(part.tool_call.tool_type)] = made
        if part.tool_response is not None and not part.tool_response.id:
            part.tool_response.id = self._nameless.pop(_word(part.tool_response.tool_type), None)

    def _read(self, part: Any) -> Iterator[ModelResponsePart]:
        told = plain(part)
        if part.tool_call is not None:
            asked: dict[str, Any] = part.tool_call.args or {}
            name, key = _name(part.tool_call), part.tool_call.id
            yield NativeToolCallPart(name, asked, key, provider_name=self._provider)
        elif part.tool_response is not None:
            answer, key = part.tool_response.response, part.tool_response.id or ""
            name = _name(part.tool_response)
            yield NativeToolReturnPart(name, answer or {}, key, provider_name=self._provider)
        elif part.code_execution_result is not None:
            # Its code ran in an earlier answer.
            result = mapping_of(told, "codeExecutionResult")
            key = text_of(result, "id") or NativeToolCallPart("").tool_call_id
            yield NativeToolReturnPart("code_execution", result, key, provider_name=self._provider)
        else:
            self._others.append({"type": next(iter(told), "part"), **told})


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))


def _name(tool: Any) -> str:
    word = _word(tool.tool_type)
    return _NATIVE.get(word) or word.lower()
