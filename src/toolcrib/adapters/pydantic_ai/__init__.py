"""Prompts on any model that pydantic-ai speaks to."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolcrib.adapters.pydantic_ai.adapter import PydanticAIAdapter
    from toolcrib.adapters.pydantic_ai.google_interactions import GoogleInteractionsModel

__all__ = ["GoogleInteractionsModel", "PydanticAIAdapter"]

_PLACES: Final = {"GoogleInteractionsModel": "google_interactions", "PydanticAIAdapter": "adapter"}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
