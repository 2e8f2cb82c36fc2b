"""How a provider says that a call of its own failed."""

from __future__ import annotations

from typing import Final

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import mapping_of, text_of

# A finished response may hold calls that are still `searching`: only these say that it went wrong.
_FAILED: Final = frozenset({"failed", "incomplete", "cancelled"})


def failure_of(item: Item) -> str | None:
    """What went wrong, with the provider's code where there is one; None when nothing did."""
    status, told = text_of(item, "status"), _told(item)
    if status not in _FAILED and not told:
        return None
    ended = status if status in _FAILED else "failed"
    return ": ".join([f"{text_of(item, 'type') or 'the call'} {ended}", *told])


def _told(item: Item) -> list[str]:
    """The code and the message of an item's `error`, which may be an object or a text."""
    error = mapping_of(item, "error")
    code = error.get("code") or error.get("type")
    found = [str(code) if isinstance(code, str | int) else "", text_of(error, "message")]
    return [each for each in [*found, text_of(item, "error")] if each]
