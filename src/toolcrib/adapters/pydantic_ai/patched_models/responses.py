"""The patch of pydantic-ai's model for the Responses API.

pydantic-ai drops items and citations that it does not know, fails at searches without an action
and at texts without annotations, and builds a streamed answer from its deltas alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from openai.types.responses import Response
from openai.types.responses.response_function_web_search import ActionSearch
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.openai import OpenAIResponsesModel

from toolcrib.adapters.items import json_object_of, plain, text_of
from toolcrib.adapters.openai.stream import ENDINGS, Streamed
from toolcrib.adapters.openai.unknown_calls import is_any_call, kind_of
from toolcrib.adapters.pydantic_ai.parts import ANNOTATIONS, ERROR
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    PatchedModel,
    as_streamed,
    filter_stream,
    revise_response,
)
from toolcrib.adapters.pydantic_ai.patched_models.stream_filter import StreamFilter
from toolcrib.adapters.pydantic_ai.patched_models.unknown_content import (
    Json,
    UnknownContent,
    WireCalls,
    add_details,
)
from toolcrib.errors import ReplyBroken

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
_NO_CALLS: Final = frozenset({"compaction", "function_call", "message", "reasoning"})
_OUTPUT: Final = "_output"
_ARGUMENTS: Final = ("name", "action", "arguments", "code", "input", "queries", "query")
_CONTENT: Final = frozenset({"output_text", "refusal"})
# Events that pydantic-ai reads whether or not their item was announced.
_FREE: Final = (
    "response.content_part.",
    "response.output_text.",
    "response.reasoning",
    "response.refusal.",
)
_ANNOTATION: Final = "response.output_text.annotation.added"
_GATHERED: Final = frozenset(
    {
        "response.output_item.done",
        _ANNOTATION,
        "response.output_text.delta",
        "response.output_text.done",
        *ENDINGS,
    }
)


class PatchedResponsesModel(PatchedModel, OpenAIResponsesModel):
    """Keeps every item of a response."""

    def read_response(self, response: Any, parse: Callable[[Any], ModelResponse]) -> ModelResponse:
        """The response with parts for every item, in the order of the items."""
        output: list[Any] = list(getattr(response, "output", None) or ())
        failure = getattr(response, "error", None)
        if not isinstance(response, Response) or (failure is not None and self.raises_failures):
            return parse(response)

        def parse_items(items: Sequence[Any]) -> ModelResponse:
            return parse(response.model_copy(update={"output": list(items), "error": None}))

        known, reply = _parsed(output, parse_items)
        _place_unknown(reply, output, known, ResponsesUnknownItems(self.system))
        _annotate(reply, output)
        wire_calls(output).attach(reply)
        if failure is not None:
            add_details(reply, {ERROR: plain(failure)})
            reply.finish_reason = "error"
        return reply

    def read_stream(
        self, streamed: StreamedResponse, parse: Callable[[Any], ModelResponse]
    ) -> None:
        """Read the whole response from the stream: its events only show how it comes about."""
        reader = ResponsesEvents()

        def revised(reply: ModelResponse) -> ModelResponse:
            body = reader.body()
            return reply if body is None else as_streamed(reply, parse(Response.construct(**body)))

        filter_stream(streamed, reader)
        revise_response(streamed, revised)


class ResponsesEvents(StreamFilter):
    """The events of one stream: each once, and none that pydantic-ai cannot place."""

    def __init__(self) -> None:
        super().__init__()
        self._streamed = Streamed()
        self._numbers: set[int] = set()
        self._items: set[str] = set()
        self._unknown: set[int | None] = set()

    def body(self) -> Json | None:
        """The whole response; None when the stream ended before it."""
        try:
            return self._streamed.body()
        except ReplyBroken:
            return None

    def is_unique(self, event: Any) -> bool:
        return event.type == "response.created"

    def expand(self, event: Any) -> Iterator[Any]:
        number = getattr(event, "sequence_number", None)
        if isinstance(number, int):
            if number in self._numbers:
                return
            self._numbers.add(number)
        if event.type in _GATHERED:
            self._streamed.add(plain(event))
        # Annotations are read with the whole response; pydantic-ai fails at unusual ones.
        if self._is_placed(event) and event.type != _ANNOTATION:
            yield _completed_event(event)

    def at_end(self) -> None:
        pass

    def _is_placed(self, event: Any) -> bool:
        """Whether pydantic-ai can read the event; of an item only after the item was announced."""
        item, place = getattr(event, "item", None), getattr(event, "output_index", None)
        if event.type == "response.output_item.added" and item is not None:
            if item.type not in _ITEMS:
                self._unknown.add(place)
                return False
            self._items.add(str(item.id))
            return True
        if place is not None and place in self._unknown:
            return False
        key = getattr(item, "id", None) or getattr(event, "item_id", None)
        return key is None or key in self._items or event.type.startswith(_FREE)


class ResponsesUnknownItems(UnknownContent):
    """Output items that pydantic-ai does not know."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._names: dict[str, str] = {}

    def parts(self, item: Json) -> list[ModelResponsePart]:
        """An item as parts: a call with its result, or the result of an earlier call."""
        kind, call_id = text_of(item, "type"), call_id_of(item)
        if kind.endswith(_OUTPUT) and call_id in self._names:
            return [self._result(item, call_id)]
        if kind in _CLIENT_CALLS or not is_any_call(item):
            self.keep(item)
            return []
        name = self._names[call_id] = kind_of(item)
        arguments = {field: item[field] for field in _ARGUMENTS if item.get(field)}
        call = NativeToolCallPart(name, arguments, call_id, provider_name=self.provider)
        # The output of a shell comes in an item of its own.
        return [call] if kind == "shell_call" else [call, self._result(item, call_id)]

    def _result(self, item: Json, call_id: str) -> NativeToolReturnPart:
        name = self._names[call_id]
        return NativeToolReturnPart(name, item, call_id, provider_name=self.provider)


def call_id_of(item: Mapping[str, Any]) -> str:
    """The id under which an item and its result belong together."""
    return text_of(item, "call_id") or text_of(item, "id")


def wire_calls(output: Sequence[Any]) -> WireCalls:
    """The provider's JSON of every hosted call, under each id that its part may have."""
    wire = WireCalls()
    searches: list[str] = []
    for item in map(plain, output):
        kind, ids = text_of(item, "type"), {text_of(item, "id"), text_of(item, "call_id")} - {""}
        if kind in _NO_CALLS:
            continue
        if kind == "tool_search_call":
            searches.append(call_id_of(item))
        elif kind == "tool_search_output" and not text_of(item, "call_id") and searches:
            # Without an id it belongs to the first search that has no output.
            ids = {searches.pop(0)}
        for key in ids:
            keep = wire.result if kind.endswith(_OUTPUT) else wire.call
            keep(key, item)
    return wire


def _parsed(
    output: Sequence[Any], parse_items: Callable[[Sequence[Any]], ModelResponse]
) -> tuple[dict[int, Any], ModelResponse]:
    """The items that pydantic-ai can read, by their index, and the response with their parts."""
    known = {index: _completed(item) for index, item in enumerate(output) if item.type in _ITEMS}
    try:
        return known, parse_items(list(known.values()))
    except (AgentRunError, UserError):
        raise
    except Exception:
        # A field that pydantic-ai takes for granted is missing from some item.
        sound = {index: item for index, item in known.items() if _is_sound(item, parse_items)}
        return sound, parse_items(list(sound.values()))


def _is_sound(item: Any, parse_items: Callable[[Sequence[Any]], ModelResponse]) -> bool:
    try:
        parse_items([item])
    except Exception:
        return False
    return True


def _place_unknown(
    reply: ModelResponse,
    output: Sequence[Any],
    known: Mapping[int, Any],
    unknown: ResponsesUnknownItems,
) -> None:
    """Add the parts of the items that pydantic-ai cannot read, each in its place."""
    if len(known) == len(output):
        return
    parts = list(reply.parts)
    place = 0
    for index, item in enumerate(map(plain, output)):
        if index in known:
            place = _after(item, parts) or place
        else:
            added = unknown.parts(item)
            parts[place:place] = added
            place += len(added)
    reply.parts = parts
    unknown.attach(reply)


def _after(item: Mapping[str, Any], parts: Sequence[ModelResponsePart]) -> int:
    """The place right after the parts of an item; zero when it has none."""
    ids = {text_of(item, "id"), text_of(item, "call_id")} - {""}
    for place in range(len(parts), 0, -1):
        part = parts[place - 1]
        if ids & {getattr(part, "id", None), getattr(part, "tool_call_id", None)}:
            return place
    return 0


def _annotate(reply: ModelResponse, output: Sequence[Any]) -> None:
    """Keep the provider's own annotations with each text: pydantic-ai drops most kinds, and those
    without a title or a place.
    """
    texts = [part for part in reply.parts if isinstance(part, TextPart)]
    contents = [
        content
        for item in output
        if item.type == "message"
        for content in plain(item).get("content") or ()
        if content.get("type") == "output_text" and content.get("text")
    ]
    for part, content in zip(texts, contents, strict=False):
        if content.get("annotations"):
            add_details(part, {ANNOTATIONS: content["annotations"]})


def _completed(item: Any) -> Any:
    """The item with the fields that pydantic-ai takes for granted."""
    match item.type:
        case "web_search_call" if getattr(item, "action", None) is None:
            # xAI sends arguments in place of an action.
            query = text_of(json_object_of(plain(item), "arguments"), "query")
            queries = [query] if query else []
            action = ActionSearch.construct(type="search", query=query, queries=queries)
            return item.model_copy(update={"action": action})
        case "message":
            contents = [c for c in getattr(item, "content", None) or () if c.type in _CONTENT]
            return item.model_copy(update={"content": [_annotated(each) for each in contents]})
        case _:
            return item


def _annotated(content: Any) -> Any:
    if getattr(content, "annotations", None) is not None or content.type != "output_text":
        return content
    return content.model_copy(update={"annotations": []})


def _completed_event(event: Any) -> Any:
    item, response = getattr(event, "item", None), getattr(event, "response", None)
    if item is not None:
        return event.model_copy(update={"item": _completed(item)})
    if response is None:
        return event
    output = getattr(response, "output", None) or ()
    known = [_completed(element) for element in output if element.type in _ITEMS]
    # The failure is read with the rest of the response.
    changes = {"output": known, "error": None}
    return event.model_copy(update={"response": response.model_copy(update=changes)})
