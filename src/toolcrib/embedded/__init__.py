"""The embedded provider: a Responses API in the process that runs hosted tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.adapter import EmbeddedAdapter
    from toolcrib.embedded.backend import (
        BackendCall,
        BackendCallResult,
        BackendInput,
        BackendMessage,
        BackendOutput,
        BackendReasoning,
        BackendRequest,
        BackendText,
        BackendTool,
        BackendUsage,
        ImageReader,
        LogprobBackend,
        MessageRole,
        ModelBackend,
        OutputFormat,
        ProposedCall,
        TokenLogprob,
        ToolChoiceMode,
        Truncation,
        TruncationReason,
    )
    from toolcrib.embedded.model_adapters import chat_endpoint, scripted_model
    from toolcrib.embedded.provider import EmbeddedProvider
    from toolcrib.embedded.server import ProviderServer, serve_provider
    from toolcrib.errors import BackendFailed

__all__ = [
    "BackendCall",
    "BackendCallResult",
    "BackendFailed",
    "BackendInput",
    "BackendMessage",
    "BackendOutput",
    "BackendReasoning",
    "BackendRequest",
    "BackendText",
    "BackendTool",
    "BackendUsage",
    "EmbeddedAdapter",
    "EmbeddedProvider",
    "ImageReader",
    "LogprobBackend",
    "MessageRole",
    "ModelBackend",
    "OutputFormat",
    "ProposedCall",
    "ProviderServer",
    "TokenLogprob",
    "ToolChoiceMode",
    "Truncation",
    "TruncationReason",
    "chat_endpoint",
    "scripted_model",
    "serve_provider",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.errors": ("BackendFailed",),
            "toolcrib.embedded.backend": (
                "BackendCall",
                "BackendCallResult",
                "BackendInput",
                "BackendMessage",
                "BackendOutput",
                "BackendReasoning",
                "BackendRequest",
                "BackendText",
                "BackendTool",
                "BackendUsage",
                "ImageReader",
                "LogprobBackend",
                "MessageRole",
                "ModelBackend",
                "OutputFormat",
                "ProposedCall",
                "TokenLogprob",
                "ToolChoiceMode",
                "Truncation",
                "TruncationReason",
            ),
            "toolcrib.embedded.adapter": ("EmbeddedAdapter",),
            "toolcrib.embedded.model_adapters": ("chat_endpoint", "scripted_model"),
            "toolcrib.embedded.provider": ("EmbeddedProvider",),
            "toolcrib.embedded.server": (
                "ProviderServer",
                "serve_provider",
            ),
        },
    )
