"""Prompts on any model that pydantic-ai speaks to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.adapters.pydantic_ai.adapter import PydanticAIAdapter

__all__ = ["PydanticAIAdapter"]


def __getattr__(name: str) -> Any:
    if name == "PydanticAIAdapter":
        from toolcrib.adapters.pydantic_ai.adapter import PydanticAIAdapter

        return PydanticAIAdapter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
