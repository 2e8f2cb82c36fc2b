"""A model's response as JSON items: one for the response itself, then one for each of its parts.

An item has the fields that codecs and the loop read. The rest of the part, which pydantic-ai needs
to send it back exactly as it came, is under `part`; no field is in both.

    response       finish_reason, provider, state
    text           text, citations, phase
    thinking
    tool_call      call_id, name, arguments
    tool_return    call_id, name, output, failure: the answer of this process
    native_call    id, name, provider, arguments
    native_return  id, name, provider, content, outcome
    file           id, content
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json, to_jsonable_python

from toolcrib.adapters.items import (
    Annotation,
    MessageText,
    ModelMessage,
    Phase,
    mapping_of,
    mappings_of,
    maybe_int,
    maybe_text,
    text_of,
    texts_of,
)
from toolcrib.adapters.openai.items import read_annotation
from toolcrib.tools.citations import Citation, FileCitation

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelResponse, ModelResponsePart

    from toolcrib.adapters.codec import RawItem

RESPONSE = "response"
TEXT = "text"
THINKING = "thinking"
TOOL_CALL = "tool_call"
TOOL_RETURN = "tool_return"
NATIVE_CALL = "native_call"
NATIVE_RETURN = "native_return"
FILE = "file"
GROQ = "groq"
"""The provider that thinks on where a call of its own cut its reasoning in two."""
UNREAD = "unread"
"""The key of a response's details with the content that has no part."""
WIRE = "wire"
"""The key of a response's details with the provider's own JSON of its hosted calls: `calls` and
`results` by the id of a call, `tools` by pydantic-ai's name of a tool. Also the key of that JSON in
an item.
"""
ANNOTATIONS = "wire_annotations"
"""The key of a text's details with the provider's own annotations."""
ERROR = "error"
"""The key of a response's details with the failure that the provider reports."""

_TYPES = frozenset(
    {RESPONSE, TEXT, THINKING, TOOL_CALL, TOOL_RETURN, NATIVE_CALL, NATIVE_RETURN, FILE}
)
_PLACES = frozenset({"start", "end", "start_index", "end_index", "index"})
_PHASES: Mapping[str, Phase] = {"commentary": "commentary", "final_answer": "final_answer"}


def items_of(response: ModelResponse) -> list[RawItem]:
    """The items of a response in order; content without a part comes last."""
    details = response.provider_details or {}
    wire, unread = mapping_of(details, WIRE), mappings_of(details, UNREAD)
    items = [_with_wire(item_of(part), wire) for part in response.parts]
    return [_header(response), *items, *map(_unread, unread)]


def with_calls(items: Sequence[RawItem], known_ids: Container[str]) -> Iterator[RawItem]:
    """The items, with a call before every result that has none here and none in `known_ids`.

    pydantic-ai drops calls of tools that the request did not declare, but not their results.
    """
    ids = {text_of(item, "id") for item in items if item.get("type") == NATIVE_CALL}
    for item in items:
        call_id = text_of(item, "id")
        if item.get("type") == NATIVE_RETURN and call_id not in ids and call_id not in known_ids:
            ids.add(call_id)
            facts = {name: item.get(name) for name in ("id", "name", "provider")}
            yield {"type": NATIVE_CALL, **facts, "arguments": {}}
        yield item


def response_of(items: Sequence[RawItem]) -> ModelResponse:
    """The response that these items stand for: its own item first, then its parts."""
    header = mapping_of(items[0], "part")
    parts = [_part_of(item) for item in items[1:] if "part" in item]
    return _responses().validate_python({**header, "kind": "response", "parts": parts})


def item_of(part: ModelResponsePart) -> RawItem:
    """One part as an item."""
    rest = cast("dict[str, Any]", _parts().dump_python(part, mode="json", fallback=str))
    match text_of(rest, "part_kind"):
        case "text":
            text = {"type": TEXT, "text": rest.pop("content"), "citations": list(_citations(rest))}
            _drop_annotations(rest)
            # Some models mark remarks on the way to the answer.
            phase = maybe_text(mapping_of(rest, "provider_details"), "phase")
            return {**text, **({"phase": phase} if phase else {}), "part": rest}
        case "thinking":
            return {"type": THINKING, "part": rest}
        case "tool-call":
            return {
                "type": TOOL_CALL,
                "call_id": text_of(rest, "tool_call_id"),
                "name": text_of(rest, "tool_name"),
                "arguments": _as_json_text(rest.pop("args", None)),
                "part": rest,
            }
        case "builtin-tool-call":
            return {**_native(NATIVE_CALL, rest), "arguments": _arguments(part), "part": rest}
        case "builtin-tool-return":
            result = {"content": rest.pop("content", None), "outcome": maybe_text(rest, "outcome")}
            return {**_native(NATIVE_RETURN, rest), **result, "part": rest}
        case "file":
            content = rest.pop("content", None)
            return {"type": FILE, "id": maybe_text(rest, "id"), "content": content, "part": rest}
        case kind:
            return {"type": kind or "unknown", "part": rest}


def _with_wire(item: RawItem, wire: RawItem) -> RawItem:
    """The item of a hosted call or of its result, with the provider's own JSON."""
    call_id = text_of(item, "id")
    match item.get("type"):
        case "native_call":
            content = mapping_of(mapping_of(wire, "calls"), call_id) or mapping_of(
                mapping_of(wire, "tools"), text_of(item, "name")
            )
        case "native_return":
            content = mapping_of(mapping_of(wire, "results"), call_id)
        case _:
            content = {}
    return {**item, WIRE: content} if content else item


def read_message(raw: RawItem) -> ModelMessage:
    """A text item as a message of the model. Missing and unknown fields are ignored."""
    notes = tuple(map(_annotation, mappings_of(raw, "citations")))
    text = MessageText(text_of(raw, "text"), notes)
    return ModelMessage((text,), raw, _PHASES.get(text_of(raw, "phase")))


def reasoning_in(raw: RawItem) -> tuple[str, ...]:
    """The readable texts of a thinking item. Models that do not summarise give the raw ones."""
    part = mapping_of(raw, "part")
    text = text_of(part, "content")
    return (text,) if text else raw_reasoning(mapping_of(part, "provider_details"))


def raw_reasoning(details: Mapping[str, Any]) -> tuple[str, ...]:
    """The reasoning in the details of a thinking part."""
    return tuple(filter(None, texts_of(details, "raw_content")))


def messages_in(raws: Sequence[RawItem]) -> list[ModelMessage | None]:
    """The messages among items, each at its item's index; None for every other item."""
    return [read_message(raw) if raw.get("type") == TEXT else None for raw in raws]


def text_in(raws: Sequence[RawItem]) -> str:
    """The text of all items, in order."""
    return "".join(text_of(raw, "text") for raw in raws if raw.get("type") == TEXT)


def without_text(raw: RawItem) -> RawItem:
    """A text item without its text, and its citations without places."""
    notes = [
        {key: value for key, value in note.items() if key not in _PLACES}
        for note in mappings_of(raw, "citations")
    ]
    return {**raw, "text": "", "citations": notes}


def _annotation(note: RawItem) -> Annotation:
    kind, title = text_of(note, "kind"), text_of(note, "title")
    if "type" in note:
        return read_annotation({key: value for key, value in note.items() if key != "kind"})
    url, file_id = text_of(note, "url"), text_of(note, "document_id")
    cited: Citation | FileCitation | None = None
    if kind == "web" and url:
        cited = Citation(url, title)
    elif kind == "document" and (file_id or title):
        cited = FileCitation(file_id, title)
    start, end = maybe_int(note, "start"), maybe_int(note, "end")
    return Annotation(kind, start, end, None, cited, note)


def _unread(block: Mapping[str, Any]) -> RawItem:
    """Unknown content under its own type, unless that type has a meaning here."""
    kind = text_of(block, "type") or "unknown"
    return {"type": f"unread_{kind}" if kind in _TYPES else kind, "unread": block}


def _native(kind: str, rest: dict[str, Any]) -> dict[str, Any]:
    rest.pop("args", None)
    # The time at which pydantic-ai made the part is not the provider's and is not sent back.
    rest.pop("timestamp", None)
    return {
        "type": kind,
        "id": text_of(rest, "tool_call_id"),
        "name": text_of(rest, "tool_name"),
        "provider": maybe_text(rest, "provider_name"),
    }


def _part_of(item: RawItem) -> dict[str, Any]:
    part = mapping_of(item, "part")
    match item.get("type"):
        case "text":
            return {**part, "content": text_of(item, "text")}
        case "tool_call" | "native_call":
            return {**part, "args": item.get("arguments")}
        case "native_return" | "file":
            return {**part, "content": item.get("content")}
        case _:
            return part


def _header(response: ModelResponse) -> RawItem:
    facts = cast(
        "dict[str, Any]",
        _responses().dump_python(replace(response, parts=[]), mode="json", fallback=str),
    )
    for key in ("parts", "kind", "usage"):
        facts.pop(key, None)
    details = mapping_of(facts, "provider_details")
    details.pop(UNREAD, None)
    details.pop(WIRE, None)
    facts["provider_details"] = details or None
    return {
        "type": RESPONSE,
        "finish_reason": maybe_text(facts, "finish_reason"),
        "provider": maybe_text(facts, "provider_name"),
        "state": maybe_text(facts, "state"),
        "part": {key: value for key, value in facts.items() if value is not None},
    }


def _citations(text: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The sources that a text cites; without a place where the provider does not give one."""
    notes = mappings_of(mapping_of(text, "provider_details"), ANNOTATIONS)
    if notes:
        yield from ({"kind": text_of(note, "type"), **note} for note in notes)
        return
    for citation in mappings_of(text, "citations"):
        anchor = mapping_of(citation, "anchor")
        place = {"start": maybe_int(anchor, "start"), "end": maybe_int(anchor, "end")}
        for source in mappings_of(citation, "sources"):
            if source.get("kind") == "web":
                cited = {"kind": "web", "url": source.get("url")}
            else:
                cited = {"kind": "document", "document_id": source.get("document_id")}
            yield {**cited, "title": source.get("title"), **place}


def _drop_annotations(text: dict[str, Any]) -> None:
    """Take out the annotations, which are the item's citations now."""
    details = mapping_of(text, "provider_details")
    if details.pop(ANNOTATIONS, None):
        text["provider_details"] = details or None


def _as_json_text(args: Any) -> str:
    return args if isinstance(args, str) else to_json({} if args is None else args).decode()


def _arguments(part: Any) -> dict[str, Any]:
    """The arguments of a hosted call as an object."""
    try:
        arguments = part.args_as_dict()
    except Exception:
        # Arguments that are no JSON do not undo the call: it has run.
        return {"input": part.args}
    return cast("dict[str, Any]", to_jsonable_python(arguments, fallback=str, bytes_mode="base64"))


@cache
def _parts() -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_ai.messages import ModelResponsePart

    # The content of a tool may have bytes, which need not be UTF-8.
    config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    return TypeAdapter(ModelResponsePart, config=config)


@cache
def _responses() -> TypeAdapter[Any]:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelResponse

    return TypeAdapter(ModelResponse)
