"""`extra`: fields of a tool's wire entry that are newer than this package."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from toolcrib.errors import InvalidTool

_FIXED: Final = frozenset({"type", "kind"})
"""What a tool is; a field beside its options cannot make it another."""

_SECRET_NAME: Final = re.compile(
    r"(?:.*[_-])?(?:auth|authorization|cookies?|credentials?|headers|keys?|password|secrets?|token)",
    re.IGNORECASE,
)
"""Names whose last word says that the value is secret: `api_key`, and not `token_budget`."""
_SHORTEST_SECRET: Final = 6
"""A shorter text would be hidden in words that have nothing to do with it."""


def check_extra(name: str, extra: object) -> dict[str, Any]:
    """Return a copy of the fields: JSON changed after the check would not be what was checked."""
    if not isinstance(extra, Mapping):
        raise InvalidTool(
            f"tool {name!r}: extra must be a mapping from wire fields to JSON values, "
            f"not {type(extra).__name__}"
        )
    fields = dict(cast("Mapping[Any, Any]", extra))
    for field in fields:
        if not isinstance(field, str) or not field.strip() or field in _FIXED:
            raise InvalidTool(
                f"tool {name!r}: extra cannot have the field {field!r}; name a field of the "
                "provider's entry other than its type"
            )
    try:
        return json.loads(json.dumps(fields, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        # Not the error's text: it may repeat a value.
        raise InvalidTool(
            f"tool {name!r}: extra must be plain JSON ({type(error).__name__})"
        ) from None


def secrets_of_extra(extra: Mapping[str, Any]) -> Iterator[str]:
    """Every text in the fields whose names say that they hold a secret."""
    for field, value in extra.items():
        is_secret = _SECRET_NAME.fullmatch(field) is not None
        yield from _texts(value) if is_secret else _secrets(value)


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from secrets_of_extra(cast("dict[str, Any]", value))
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from _secrets(member)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str() if len(value) >= _SHORTEST_SECRET:
            yield value
        case dict():
            for member in cast("dict[str, Any]", value).values():
                yield from _texts(member)
        case list():
            for member in cast("list[Any]", value):
                yield from _texts(member)
        case _:
            pass
