"""A model's response as items: one for the response itself, then one for each of its parts.

An item says plainly what codecs and the loop need. What pydantic-ai needs besides, to send the part
back exactly as it came, lies under `part`; nothing is said twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json, to_jsonable_python

from toolcrib.adapters.json_fields import mapping_of, mappings_of, maybe_int, maybe_text, text_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelResponse, ModelResponsePart

    from toolcrib.adapters.codec import RawItem

RESPONSE = "response"
NATIVE_CALL = "native_call"
NATIVE_RETURN = "native_return"
UNREAD = "unread"
"""Where a response's details keep what came with it and has no part."""
_KINDS = frozenset({RESPONSE, NATIVE_CALL, NATIVE_RETURN, "function_call", "message", "file"})


def items_of(response: ModelResponse) -> list[RawItem]:
    """The items of a response, in order; what has no part comes last."""
    unread = mappings_of(response.provider_details or {}, UNREAD)
    return [_header(response), *map(item_of, response.parts), *map(_unread, unread)]


def with_calls(items: Sequence[RawItem], called: Container[str]) -> Iterator[RawItem]:
    """The items, with a call before every answer that is to none of them and to none of the calls
    `called` before: pydantic-ai leaves out calls of tools that nobody offered, not their answers.
    """
    here = {text_of(item, "id") for item in items if item.get("type") == NATIVE_CALL}
    for item in items:
        key = text_of(item, "id")
        if item.get("type") == NATIVE_RETURN and key not in here and key not in called:
            here.add(key)
            told = {name: item.get(name) for name in ("id", "name", "provider")}
            yield {"type": NATIVE_CALL, **told, "arguments": {}}
        yield item


def response_of(items: Sequence[RawItem]) -> ModelResponse:
    """The response that was told in these items: its own first, then its parts."""
    header = mapping_of(items[0], "part")
    parts = [_part_of(item) for item in items[1:] if "part" in item]
    return _responses().validate_python({**header, "kind": "response", "parts": parts})


def item_of(part: ModelResponsePart) -> RawItem:
    """One part as an item."""
    told = cast("dict[str, Any]", _parts().dump_python(part, mode="json", fallback=str))
    match text_of(told, "part_kind"):
        case "text":
            text = {"type": "output_text", "text": told.pop("content")}
            annotated = {**text, "annotations": list(_annotations(told))}
            # Some models tell remarks on the way from the answer.
            phase = maybe_text(mapping_of(told, "provider_details"), "phase")
            said = {"type": "message", "content": [annotated], "part": told}
            return {**said, "phase": phase} if phase else said
        case "thinking":
            return {"type": "reasoning", "part": told}
        case "tool-call":
            return {
                "type": "function_call",
                "call_id": text_of(told, "tool_call_id"),
                "name": text_of(told, "tool_name"),
                "arguments": _as_json_text(told.pop("args", None)),
                "part": told,
            }
        case "builtin-tool-call":
            return {**_native(NATIVE_CALL, told), "arguments": _arguments(part), "part": told}
        case "builtin-tool-return":
            content = told.pop("content", None)
            outcome = maybe_text(told, "outcome")
            return {
                **_native(NATIVE_RETURN, told),
                "content": content,
                "outcome": outcome,
                "part": told,
            }
        case "file":
            content = told.pop("content", None)
            return {"type": "file", "id": maybe_text(told, "id"), "content": content, "part": told}
        case kind:
            return {"type": kind or "unknown", "part": told}


def _unread(block: Mapping[str, Any]) -> RawItem:
    """What nobody knows, under its own type, unless that means something here."""
    kind = text_of(block, "type") or "unknown"
    return {"type": f"unread_{kind}" if kind in _KINDS else kind, "unread": block}


def _native(kind: str, told: dict[str, Any]) -> dict[str, Any]:
    told.pop("args", None)
    # When pydantic-ai made the part is not the provider's to say, and nobody sends it back.
    told.pop("timestamp", None)
    return {
        "type": kind,
        "id": text_of(told, "tool_call_id"),
        "name": text_of(told, "tool_name"),
        "provider": maybe_text(told, "provider_name"),
    }


def _part_of(item: RawItem) -> dict[str, Any]:
    part = mapping_of(item, "part")
    match item.get("type"):
        case "message":
            texts = mappings_of(item, "content")
            return {**part, "content": "".join(text_of(each, "text") for each in texts)}
        case "function_call" | "native_call":
            return {**part, "args": item.get("arguments")}
        case "native_return" | "file":
            return {**part, "content": item.get("content")}
        case _:
            return part


def _header(response: ModelResponse) -> RawItem:
    told = cast(
        "dict[str, Any]",
        _responses().dump_python(replace(response, parts=[]), mode="json", fallback=str),
    )
    for key in ("parts", "kind", "usage"):
        told.pop(key, None)
    details = mapping_of(told, "provider_details")
    details.pop(UNREAD, None)
    told["provider_details"] = details or None
    return {
        "type": RESPONSE,
        "finish_reason": maybe_text(told, "finish_reason"),
        "provider": maybe_text(told, "provider_name"),
        "state": maybe_text(told, "state"),
        "part": {key: value for key, value in told.items() if value is not None},
    }


def _annotations(text: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a text cites, one annotation for each source; without indexes where the provider does
    not say what is cited.
    """
    for citation in mappings_of(text, "citations"):
        anchor = mapping_of(citation, "anchor")
        start, end = maybe_int(anchor, "start"), maybe_int(anchor, "end")
        indexes = {} if start is None or end is None else {"start_index": start, "end_index": end}
        for source in mappings_of(citation, "sources"):
            if source.get("kind") == "web":
                found = {"type": "url_citation", "url": source.get("url")}
            else:
                found = {"type": "document_citation", "document_id": source.get("document_id")}
            yield {**found, "title": source.get("title"), **indexes}


def _as_json_text(args: Any) -> str:
    return args if isinstance(args, str) else to_json({} if args is None else args).decode()


def _arguments(part: Any) -> dict[str, Any]:
    """The arguments of a call that the provider ran; empty where they are no object."""
    try:
        found = part.args_as_dict()
    except Exception:
        # What the provider wrote need not be JSON, and the call has happened all the same.
        return {"input": part.args}
    return cast("dict[str, Any]", to_jsonable_python(found, fallback=str, bytes_mode="base64"))


@cache
def _parts() -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_ai.messages import ModelResponsePart

    # A tool's content may hold bytes, and those need not be text.
    config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    return TypeAdapter(ModelResponsePart, config=config)


@cache
def _responses() -> TypeAdapter[Any]:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelResponse

    return TypeAdapter(ModelResponse)
