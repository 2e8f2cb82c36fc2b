"""Gemini's Interactions API as a model of pydantic-ai, whose own speaks generateContent only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.adapters.pydantic_ai.google_interactions.model import GoogleInteractionsModel

__all__ = ["GoogleInteractionsModel"]


def __getattr__(name: str) -> Any:
    if name == "GoogleInteractionsModel":
        from toolcrib.adapters.pydantic_ai.google_interactions.model import GoogleInteractionsModel

        return GoogleInteractionsModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
