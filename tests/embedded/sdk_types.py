"""Is what the provider says what the official SDK's own types say it may say?"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from openai.types.responses import (
    Response,
    ResponseItem,
    ResponseOutputItem,
    ResponseStreamEvent,
)
from openai.types.responses.responses_server_event import ResponsesServerEvent
from pydantic import BaseModel

OF_OPEN_RESPONSES = frozenset({"frequency_penalty", "presence_penalty", "store"})
"""Fields of a response that the open specification asks for and the SDK does not have."""

OF_SERVERS = frozenset({"vector_store_id"})
"""Fields that OpenAI's servers send with a result of a file search, though the SDK has no name for
them; our own codec reads them.
"""


def check_response(body: Mapping[str, Any]) -> None:
    """A whole response, with every item in it."""
    _check(Response, body, OF_OPEN_RESPONSES | OF_SERVERS)
    for item in body["output"]:
        check_item(item)


def check_item(item: Mapping[str, Any]) -> None:
    """An item of an output."""
    _check(_member(ResponseOutputItem, item["type"]), item, OF_SERVERS)


def check_input_item(item: Mapping[str, Any]) -> None:
    """An item of an input, as it is listed."""
    members = _members(ResponseItem, item["type"])
    if item["type"] == "message":
        members = [each for each in members if item["role"] in _values(each, "role")]
    _check(members[0], item, OF_SERVERS)


def check_event(event: Mapping[str, Any], *, is_socket: bool = False) -> None:
    """An event of a stream or a socket, with what it carries."""
    union = ResponsesServerEvent if is_socket else ResponseStreamEvent
    item: Any = event.get("item")
    if event["type"] == "response.output_item.added" and item["type"] == "web_search_call":
        # OpenAI's servers add a search before they know what it does, against their own types.
        assert "action" not in item
        event = {**event, "item": {**item, "action": {"type": "search", "query": ""}}}
    _check(_member(union, event["type"]), event, OF_OPEN_RESPONSES | OF_SERVERS)
    if "response" in event:
        check_response(event["response"])


def _check(
    model: type[BaseModel], value: Mapping[str, Any], besides: frozenset[str] = frozenset()
) -> None:
    validated = model.model_validate(value)
    unknown = [place for place in _unknown(validated) if place.rpartition(".")[2] not in besides]
    assert unknown == [], f"{value.get('type')}: the SDK does not know {unknown}"


def _unknown(value: Any, place: str = "") -> Iterator[str]:
    """The places of fields that a type does not have."""
    if isinstance(value, BaseModel):
        yield from (f"{place}.{name}" for name in value.model_extra or ())
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name), f"{place}.{name}")
    elif isinstance(value, list):
        for at, each in enumerate(typing.cast("list[Any]", value)):
            yield from _unknown(each, f"{place}.{at}")


def _member(union: Any, wire_type: str) -> type[BaseModel]:
    return _members(union, wire_type)[0]


@cache
def _members(union: Any, wire_type: str) -> list[type[BaseModel]]:
    """The classes of a union that have this `type`."""
    found = [
        each for each in typing.get_args(typing.get_args(union)[0]) if wire_type in _values(each)
    ]
    assert found, f"the SDK knows nothing of type {wire_type!r}"
    return found


def _values(model: Any, field: str = "type") -> tuple[Any, ...]:
    known: Mapping[str, Any] = model.model_fields
    return typing.get_args(known[field].annotation) if field in known else ()
