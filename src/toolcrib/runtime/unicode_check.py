"""Text in the parameters of an operation that is no Unicode text."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, cast

from toolcrib.store.stored_text import is_unicode


def place_of_surrogate(params: object) -> str | None:
    """The JSON pointer of a text that has half of a surrogate pair; None when there is none."""
    # No recursion: arguments may be nested deeper than Python goes.
    left: list[tuple[str, object]] = [("", params)]
    while left:
        place, value = left.pop()
        match value:
            case None | bool() | int() | float():
                pass
            case str():
                if not is_unicode(value):
                    return place
            case dict():
                for key, each in cast("dict[Any, Any]", value).items():
                    if isinstance(key, str) and not is_unicode(key):
                        return place or "/"
                    left.append((f"{place}/{key}", each))
            case list() | tuple():
                members = enumerate(cast("list[Any]", value))
                left.extend((f"{place}/{number}", each) for number, each in members)
            case _ if is_dataclass(value) and not isinstance(value, type):
                left.extend((f"{place}/{f.name}", getattr(value, f.name)) for f in fields(value))
            case _:
                pass
    return None
