"""Prompts on any model that pydantic-ai speaks to; the library is imported when it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.adapters.governance import Governance
    from toolcrib.adapters.model_client import Retry
    from toolcrib.adapters.options import Budget
    from toolcrib.adapters.pydantic_ai.adapter import PydanticAIAdapter
    from toolcrib.adapters.pydantic_ai.codecs.registry import default_codecs
    from toolcrib.adapters.pydantic_ai.google_interactions import GoogleInteractionsModel

__all__ = [
    "Budget",
    "GoogleInteractionsModel",
    "Governance",
    "PydanticAIAdapter",
    "Retry",
    "default_codecs",
]

_HOMES = {
    "Budget": "toolcrib.adapters.options",
    "GoogleInteractionsModel": "toolcrib.adapters.pydantic_ai.google_interactions",
    "Governance": "toolcrib.adapters.governance",
    "PydanticAIAdapter": "toolcrib.adapters.pydantic_ai.adapter",
    "Retry": "toolcrib.adapters.model_client",
    "default_codecs": "toolcrib.adapters.pydantic_ai.codecs.registry",
}


if not TYPE_CHECKING:
    # Out of a type checker's sight, or it would take every misspelt name for Any.
    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
