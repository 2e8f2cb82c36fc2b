"""Is a request's tool what the SDK's own types say it may be?"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

# Fields that the API takes and the types of the SDK do not know, with the day that was last seen.
# `test_typed_tools.py` fails when the SDK has caught up.
KNOWN_UNTYPED: Mapping[str, str] = {"web_search: filters.blocked_domains": "2026-11-16"}


@cache
def adapter_for(wire_type: str) -> TypeAdapter[Any]:
    """A validator for the one class that has this `type`: a union would blame every member."""
    from openai.types.responses.tool_param import ToolParam

    for member in typing.get_args(ToolParam):
        if wire_type in _literals(typing.get_type_hints(member)["type"]):
            return TypeAdapter(member)
    raise LookupError(f"the SDK knows no tool of type {wire_type!r}")


def untyped_fields(entry: Mapping[str, Any]) -> list[str]:
    """What the SDK's types say against an entry, as `type: field`."""
    try:
        adapter_for(entry["type"]).validate_python(entry, extra="forbid")
    except ValidationError as error:
        return [f"{entry['type']}: {'.'.join(map(str, e['loc']))}" for e in error.errors()]
    return []


def assert_typed(entry: Mapping[str, Any]) -> None:
    """Fail for anything but the known exceptions."""
    assert [field for field in untyped_fields(entry) if field not in KNOWN_UNTYPED] == []


def _literals(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint)
