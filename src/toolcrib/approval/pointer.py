"""JSON pointers into a call's arguments, with `*` for every element."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, cast

from toolcrib.errors import InvalidPolicy

_BAD_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]*")


class Missing(Enum):
    """What stands where a pointer leads to nothing; unlike None it is no JSON value."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


def check_pointer(pointer: str) -> None:
    """Refuse what is not a JSON pointer. The empty one points at all arguments together."""
    if pointer and not pointer.startswith("/"):
        raise InvalidPolicy(f'{pointer!r} is not a JSON pointer; write "/{pointer}"')
    if _BAD_ESCAPE.search(pointer):
        raise InvalidPolicy(f"{pointer!r} is not a JSON pointer; write ~0 for ~ and ~1 for /")


def resolve(pointer: str, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """Every value that `pointer` leads to, `MISSING` for each branch where it leads nowhere."""
    values: tuple[Any, ...] = (arguments,)
    for segment in pointer.split("/")[1:]:
        key = segment.replace("~1", "/").replace("~0", "~")
        values = tuple(found for value in values for found in _step(value, key))
    return values


def _step(value: object, key: str) -> Iterable[object]:
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return members.values() if key == "*" else (members.get(key, MISSING),)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        elements = cast("Sequence[object]", value)
        return elements if key == "*" else (_element(elements, key),)
    return (MISSING,)


def _element(elements: Sequence[object], key: str) -> object:
    is_there = _INDEX.fullmatch(key) and int(key) < len(elements)
    return elements[int(key)] if is_there else MISSING
