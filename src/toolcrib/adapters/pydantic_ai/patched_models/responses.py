"""What comes over the Responses API. pydantic-ai passes over items that it does not know, and fails
at searches that do not tell what was done, as those of xAI.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

from openai.types.responses.response_function_web_search import ActionSearch
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesStreamedResponse

from toolcrib.adapters.json_fields import json_object_of, plain, text_of
from toolcrib.adapters.openai.codecs.unknown import is_any_call, kind_of
from toolcrib.adapters.pydantic_ai.parts import UNREAD
from toolcrib.adapters.pydantic_ai.patched_models.streams import Watched

_ITEMS: Final = frozenset(
    {
        "code_interpreter_call",
        "compaction",
        "file_search_call",
        "function_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "message",
        "reasoning",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
# Nobody but us could answer these, and pydantic-ai cannot.
_WAITING: Final = frozenset({"apply_patch_call", "computer_call", "local_shell_call"})
_OUTPUT: Final = "_output"
_ABOUT_CALLS: Final = ("name", "action", "arguments", "code", "input", "queries", "query")


class WholeResponsesModel(OpenAIResponsesModel):
    """Tells every item of an answer."""

    def _process_response(self, response: Any, *args: Any, **facts: Any) -> ModelResponse:
        output: list[Any] = list(getattr(response, "output", None) or ())
        known = [_mended(item) for item in output if item.type in _ITEMS]
        read = response.model_copy(update={"output": known}) if output else response
        made = super()._process_response(read, *args, **facts)
        if len(known) == len(output):
            return made
        odd = Odd(self.system)
        parts = list(made.parts)
        at = 0
        for item in map(plain, output):
            if text_of(item, "type") in _ITEMS:
                at = _after(item, parts) or at
            else:
                found = odd.parts(item)
                parts[at:at] = found
                at += len(found)
        made.parts = parts
        made.provider_details = {**(made.provider_details or {}), **odd.unread}
        return made

    async def _process_streamed_response(
        self, *args: Any, **facts: Any
    ) -> OpenAIResponsesStreamedResponse:
        made = await super()._process_streamed_response(*args, **facts)
        made.__class__ = _WholeStream
        return made


class _WholeStream(OpenAIResponsesStreamedResponse):
    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        odd = Odd(self.provider_name)
        places: set[Any] = set()

        def known(event: Any) -> Iterator[Any]:
            item, place = getattr(event, "item", None), getattr(event, "output_index", None)
            if item is not None and item.type not in _ITEMS:
                places.add(place)
                self._note(odd, plain(item), place, event.type == "response.output_item.done")
            elif place is None or place not in places:
                yield _mended_event(event)

        stream: Any = Watched(self._response, known)
        self._response = stream
        async for event in super()._get_event_iterator():
            yield event

    def _note(self, odd: Odd, item: dict[str, Any], place: Any, is_over: bool) -> None:
        # Calls run side by side; one that began first is told first, whenever it is over.
        parts = odd.parts(item) if is_over else odd.begun(item)
        for number, part in enumerate(parts):
            key = ("odd", place, number)
            self._parts_manager.handle_part(vendor_part_id=key, part=part)
        self.provider_details = {**(self.provider_details or {}), **odd.unread}


class Odd:
    """Items that pydantic-ai does not know: what the provider ran becomes parts all the same, and
    the rest is kept as it is.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._names: dict[str, str] = {}
        self._others: list[dict[str, Any]] = []

    @property
    def unread(self) -> Mapping[str, Any]:
        """What goes with the response, because it is no part of it."""
        return {UNREAD: self._others} if self._others else {}

    def parts(self, item: dict[str, Any]) -> list[ModelResponsePart]:
        """An item as parts: a call with its result, or the result of one that came before."""
        kind, key = text_of(item, "type"), text_of(item, "call_id") or text_of(item, "id")
        if kind.endswith(_OUTPUT) and key in self._names:
            return [self._result(self._names[key], item, key)]
        calls = self.begun(item)
        if not calls:
            self._others.append(item)
        # What a shell printed comes in an item of its own.
        is_whole = bool(calls) and kind != "shell_call"
        return [*calls, self._result(self._names[key], item, key)] if is_whole else calls

    def begun(self, item: dict[str, Any]) -> list[ModelResponsePart]:
        """The call alone, as far as it is known; nothing when the item is no call of theirs."""
        if text_of(item, "type") in _WAITING or not is_any_call(item):
            return []
        key = text_of(item, "call_id") or text_of(item, "id")
        name = self._names[key] = kind_of(item)
        asked = {field: item[field] for field in _ABOUT_CALLS if item.get(field)}
        return [NativeToolCallPart(name, asked, key, provider_name=self._provider)]

    def _result(self, name: str, item: dict[str, Any], key: str) -> NativeToolReturnPart:
        return NativeToolReturnPart(name, item, key, provider_name=self._provider)


def _after(item: Mapping[str, Any], parts: Sequence[ModelResponsePart]) -> int:
    """The place right after the parts of an item; zero when it has none."""
    keys = {text_of(item, "id"), text_of(item, "call_id")} - {""}
    for at in range(len(parts), 0, -1):
        part = parts[at - 1]
        if keys & {getattr(part, "id", None), getattr(part, "tool_call_id", None)}:
            return at
    return 0


def _mended(item: Any) -> Any:
    """A search that does not tell what was done, as one that does: what it was asked is known."""
    if item.type != "web_search_call" or getattr(item, "action", None) is not None:
        return item
    query = text_of(json_object_of(plain(item), "arguments"), "query")
    action = ActionSearch.construct(type="search", query=query, queries=[query] if query else [])
    return item.model_copy(update={"action": action})


def _mended_event(event: Any) -> Any:
    item, response = getattr(event, "item", None), getattr(event, "response", None)
    if item is not None:
        return event.model_copy(update={"item": _mended(item)})
    output = getattr(response, "output", None)
    if response is None or not output:
        return event
    known = [_mended(each) for each in output if each.type in _ITEMS]
    return event.model_copy(update={"response": response.model_copy(update={"output": known})})
