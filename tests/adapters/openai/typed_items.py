"""Is an item of a request's input what the SDK's own types say it may be?"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError


@cache
def item_adapter(wire_type: str) -> TypeAdapter[Any]:
    """A validator for the one class that has this `type`."""
    from openai.types.responses.response_input_item_param import ResponseInputItemParam

    for member in typing.get_args(ResponseInputItemParam):
        hint = typing.get_type_hints(member).get("type")
        if wire_type in typing.get_args(hint):
            return TypeAdapter(member)
    raise LookupError(f"the SDK knows no input item of type {wire_type!r}")


def untyped_in_item(item: Mapping[str, Any]) -> list[str]:
    """What the SDK's types say against an item, as places in it."""
    return faults(item_adapter(item["type"]), item)


def faults(adapter: TypeAdapter[Any], value: Any) -> list[str]:
    """The places in a value that do not fit, at any depth."""
    try:
        _look_through(adapter.validate_python(value, extra="forbid"))
    except ValidationError as error:
        return [".".join(map(str, each["loc"])) for each in error.errors()]
    return []


def _look_through(validated: Any) -> None:
    """What is typed as any iterable is validated only as it is gone through."""
    if isinstance(validated, Mapping):
        members = cast("Mapping[str, Any]", validated).values()
    elif isinstance(validated, Iterable) and not isinstance(validated, str | bytes):
        members = cast("Iterable[Any]", validated)
    else:
        return
    for member in members:
        _look_through(member)
