"""Prompts on any pydantic-ai model. The library is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.adapters.model_client import Retry
    from toolcrib.adapters.options import Budget
    from toolcrib.adapters.pydantic_ai.adapter import PydanticAIAdapter
    from toolcrib.adapters.pydantic_ai.codecs.registry import default_codecs
    from toolcrib.adapters.pydantic_ai.google_interactions import GoogleInteractionsModel
    from toolcrib.adapters.turn_tools import Governance

__all__ = [
    "Budget",
    "GoogleInteractionsModel",
    "Governance",
    "PydanticAIAdapter",
    "Retry",
    "default_codecs",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.adapters.turn_tools": ("Governance",),
            "toolcrib.adapters.model_client": ("Retry",),
            "toolcrib.adapters.options": ("Budget",),
            "toolcrib.adapters.pydantic_ai.adapter": ("PydanticAIAdapter",),
            "toolcrib.adapters.pydantic_ai.codecs.registry": ("default_codecs",),
            "toolcrib.adapters.pydantic_ai.google_interactions": ("GoogleInteractionsModel",),
        },
    )
