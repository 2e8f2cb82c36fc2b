"""How an interaction ended, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_ai.messages import FinishReason
from pydantic_ai.usage import RequestUsage

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import mapping_of, maybe_int, text_of
from toolcrib.adapters.pydantic_ai.parts import UNREAD

_REASONS: Final[Mapping[str, FinishReason]] = {
    "budget_exceeded": "length",
    "cancelled": "error",
    "completed": "stop",
    "failed": "error",
    "incomplete": "length",
    "requires_action": "tool_call",
    "requires_continuation": "length",
}


def reason_of(interaction: Item) -> FinishReason | None:
    """Why the model stopped; None when it did not say, or in a word that is not known."""
    return _REASONS.get(text_of(interaction, "status"))


def details_of(interaction: Item, unread: list[dict[str, Any]]) -> dict[str, Any]:
    """What goes with the response, besides its parts."""
    error = mapping_of(interaction, "error")
    told: dict[str, Any] = {
        "finish_reason": text_of(interaction, "status") or None,
        "error": error or None,
        "service_tier": text_of(interaction, "service_tier") or None,
        UNREAD: unread or None,
    }
    return {key: value for key, value in told.items() if value is not None}


def usage_of(interaction: Item) -> RequestUsage:
    """The tokens. Those that tools brought in are input, thoughts are output."""
    told = mapping_of(interaction, "usage")

    def count(name: str) -> int:
        return maybe_int(told, f"total_{name}_tokens") or 0

    thoughts = count("thought")
    return RequestUsage(
        input_tokens=count("input") + count("tool_use"),
        output_tokens=count("output") + thoughts,
        cache_read_tokens=count("cached"),
        details={"reasoning_tokens": thoughts} if thoughts else {},
    )
