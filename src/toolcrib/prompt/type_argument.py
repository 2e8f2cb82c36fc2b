"""The type argument that a class fixed when it was derived, as in `class Task(Section[Params])`."""

from __future__ import annotations

from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

_SAYS_NOTHING = (Any, NoneType)


def type_argument(derived: type[Any], base: type[Any]) -> Any:
    """What `derived` or the nearest class above it put into the brackets of `base`, or None."""
    for each in derived.__mro__:
        for alias in each.__dict__.get("__orig_bases__", ()):
            origin, arguments = get_origin(alias), get_args(alias)
            if not (isinstance(origin, type) and issubclass(origin, base) and arguments):
                continue
            if not isinstance(arguments[0], TypeVar) and arguments[0] not in _SAYS_NOTHING:
                return arguments[0]
    return None
