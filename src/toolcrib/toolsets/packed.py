"""Values that a library has a meaning for, on their way through the executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Packed(dict[str, Any]):
    """The record of a value, which itself is `original`."""

    __slots__ = ("original", "text")

    def __init__(self, record: Mapping[str, Any], original: Any, text: str) -> None:
        super().__init__(record)
        self.original = original
        self.text = text

    def render(self) -> str:
        """What the transcript shows in the value's place."""
        return self.text


def unpack(value: Any) -> Any:
    """The value as the tool returned it."""
    return value.original if isinstance(value, Packed) else value
