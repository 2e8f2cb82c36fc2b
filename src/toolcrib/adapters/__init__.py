"""Adapters: how prompts reach models, and how what models and providers do comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.adapters.answer import PromptResponse, ResponseStatus
    from toolcrib.adapters.codec import Codec, Contribution, HostedToolCodec, Invocation
    from toolcrib.adapters.model_client import Retry
    from toolcrib.adapters.options import Budget, Usage
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.adapters.prompt_stream import PromptStream
    from toolcrib.adapters.turn_tools import Governance

__all__ = [
    "Budget",
    "Codec",
    "Contribution",
    "Governance",
    "HostedToolCodec",
    "Invocation",
    "PromptAdapter",
    "PromptResponse",
    "PromptStream",
    "ResponseStatus",
    "Retry",
    "Usage",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.adapters.codec": ("Codec", "Contribution", "HostedToolCodec", "Invocation"),
            "toolcrib.adapters.turn_tools": ("Governance",),
            "toolcrib.adapters.model_client": ("Retry",),
            "toolcrib.adapters.options": ("Budget",),
            "toolcrib.adapters.prompt_adapter": ("PromptAdapter",),
            "toolcrib.adapters.prompt_stream": ("PromptStream",),
            "toolcrib.adapters.answer": ("PromptResponse", "ResponseStatus", "Usage"),
        },
    )
