"""What is sent, as JSON: every item is encoded once, however often it is sent."""

from __future__ import annotations

import json
from typing import Any

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import plain


class Outgoing:
    """The items that a request brings. A history that we keep goes out with every request, so an
    item stays encoded once it has been sent.
    """

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._encoded: list[bytes] = []

    def to_json(self, items: list[Item]) -> bytes:
        """All items, as a list. The same list must only have grown since the last time."""
        if items is not self._items:
            self._items, self._encoded = items, []
        self._encoded += map(encoded, items[len(self._encoded) :])
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
