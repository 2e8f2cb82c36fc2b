"""What is sent, as JSON: every item is encoded once, however often it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import plain


class Outgoing:
    """The items that the next request brings. A history that we keep goes out with every request,
    so an item stays encoded once it has been sent.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.items: list[Item] = list(items)
        self._encoded: list[bytes] = []

    def add(self, items: Iterable[Item]) -> None:
        """Add items at the end. They must not change any more."""
        self.items.extend(items)

    def to_json(self) -> bytes:
        """All items, as a list."""
        self._encoded += map(encoded, self.items[len(self._encoded) :])
        return b"[%b]" % b",".join(self._encoded)


def encoded(value: Any) -> bytes:
    """JSON as it is sent. Raises `TypeError`, `ValueError` or `RecursionError` for what cannot be
    JSON.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_model)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which a provider may send, can only be spelt as an escape.
        return json.dumps(value, separators=(",", ":"), default=_model).encode()


def _model(value: Any) -> dict[str, Any]:
    """A model of the SDK's, which settings may hold, with what was set in it."""
    if not hasattr(value, "model_dump"):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return plain(value)
