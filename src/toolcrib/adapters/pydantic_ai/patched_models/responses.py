"""The patch of pydantic-ai's model for the Responses API.

pydantic-ai drops items that it does not know, and fails at searches without an action, which xAI
sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from openai.types.responses.response_function_web_search import ActionSearch
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.openai import OpenAIResponsesModel

from toolcrib.adapters.items import json_object_of, plain, text_of
from toolcrib.adapters.openai.unknown_calls import is_any_call, kind_of
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    PatchedModel,
    add_part,
    filter_stream,
)
from toolcrib.adapters.pydantic_ai.patched_models.unknown_content import Json, UnknownContent

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
# Calls that wait for the client; pydantic-ai has no way to answer them.
_CLIENT_CALLS: Final = frozenset({"apply_patch_call", "computer_call", "local_shell_call"})
_OUTPUT: Final = "_output"
_ARGUMENTS: Final = ("name", "action", "arguments", "code", "input", "queries", "query")


class PatchedResponsesModel(PatchedModel, OpenAIResponsesModel):
    """Keeps every item of a response."""

    def read_response(self, response: Any, parse: Callable[[Any], ModelResponse]) -> ModelResponse:
        """The response with parts for every item, in the order of the items."""
        output: list[Any] = list(getattr(response, "output", None) or ())
        known = [_completed(item) for item in output if item.type in _ITEMS]
        reply = parse(response.model_copy(update={"output": known}) if output else response)
        if len(known) == len(output):
            return reply
        unknown = ResponsesUnknownItems(self.system)
        parts = list(reply.parts)
        place = 0
        for item in map(plain, output):
            if text_of(item, "type") in _ITEMS:
                place = _after(item, parts) or place
            else:
                added = unknown.parts(item)
                parts[place:place] = added
                place += len(added)
        reply.parts = parts
        unknown.attach(reply)
        return reply

    def read_stream(self, streamed: StreamedResponse) -> None:
        """Take unknown items out of the stream and add their parts."""
        unknown = ResponsesUnknownItems(self.system)
        places: set[Any] = set()

        def known_events(event: Any) -> Iterator[Any]:
            item, place = getattr(event, "item", None), getattr(event, "output_index", None)
            if item is not None and item.type not in _ITEMS:
                places.add(place)
                is_done = event.type == "response.output_item.done"
                # Calls run in parallel; the part of a call keeps the place of its start.
                parts = unknown.parts(plain(item)) if is_done else unknown.calls(plain(item))
                for number, part in enumerate(parts):
                    add_part(streamed, part, ("unknown", place, number))
                unknown.attach(streamed)
            elif place is None or place not in places:
                yield _completed_event(event)

        filter_stream(streamed, known_events, lambda: unknown.attach(streamed))


class ResponsesUnknownItems(UnknownContent):
    """Output items that pydantic-ai does not know."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._names: dict[str, str] = {}

    def parts(self, item: Json) -> list[ModelResponsePart]:
        """An item as parts: a call with its result, or the result of an earlier call."""
        kind, call_id = text_of(item, "type"), text_of(item, "call_id") or text_of(item, "id")
        if kind.endswith(_OUTPUT) and call_id in self._names:
            return [self._result(item, call_id)]
        calls = self.calls(item)
        if not calls:
            self.keep(item)
        # The output of a shell comes in an item of its own.
        has_result = bool(calls) and kind != "shell_call"
        return [*calls, self._result(item, call_id)] if has_result else calls

    def calls(self, item: Json) -> list[ModelResponsePart]:
        """The call alone, as far as it is known; nothing when the item is not a hosted call."""
        if text_of(item, "type") in _CLIENT_CALLS or not is_any_call(item):
            return []
        call_id = text_of(item, "call_id") or text_of(item, "id")
        name = self._names[call_id] = kind_of(item)
        arguments = {field: item[field] for field in _ARGUMENTS if item.get(field)}
        return [NativeToolCallPart(name, arguments, call_id, provider_name=self.provider)]

    def _result(self, item: Json, call_id: str) -> NativeToolReturnPart:
        name = self._names[call_id]
        return NativeToolReturnPart(name, item, call_id, provider_name=self.provider)


def _after(item: Mapping[str, Any], parts: Sequence[ModelResponsePart]) -> int:
    """The place right after the parts of an item; zero when it has none."""
    ids = {text_of(item, "id"), text_of(item, "call_id")} - {""}
    for place in range(len(parts), 0, -1):
        part = parts[place - 1]
        if ids & {getattr(part, "id", None), getattr(part, "tool_call_id", None)}:
            return place
    return 0


def _completed(item: Any) -> Any:
    """The item; a search without an action gets one from its arguments."""
    if item.type != "web_search_call" or getattr(item, "action", None) is not None:
        return item
    query = text_of(json_object_of(plain(item), "arguments"), "query")
    action = ActionSearch.construct(type="search", query=query, queries=[query] if query else [])
    return item.model_copy(update={"action": action})


def _completed_event(event: Any) -> Any:
    item, response = getattr(event, "item", None), getattr(event, "response", None)
    if item is not None:
        return event.model_copy(update={"item": _completed(item)})
    output = getattr(response, "output", None)
    if response is None or not output:
        return event
    known = [_completed(element) for element in output if element.type in _ITEMS]
    return event.model_copy(update={"response": response.model_copy(update={"output": known})})
