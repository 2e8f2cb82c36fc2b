"""Gemini's Interactions API as a pydantic-ai model: the library's own uses generateContent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.adapters.pydantic_ai.google_interactions.model import GoogleInteractionsModel

__all__ = [
    "GoogleInteractionsModel",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.adapters.pydantic_ai.google_interactions.model": ("GoogleInteractionsModel",),
        },
    )
