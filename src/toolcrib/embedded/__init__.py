"""The embedded provider: a Responses API in the process that runs hosted tools.

Names load their module when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.embedded.backend import (
        BackendCall,
        BackendCallResult,
        BackendFailed,
        BackendInput,
        BackendMessage,
        BackendOutput,
        BackendReasoning,
        BackendRequest,
        BackendText,
        BackendTool,
        BackendUsage,
        ModelBackend,
        OutputFormat,
        ProposedCall,
        Truncation,
    )
    from toolcrib.embedded.provider import EmbeddedProvider
    from toolcrib.embedded.server import ProviderServer, serve_provider

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
    "EmbeddedProvider",
    "ModelBackend",
    "OutputFormat",
    "ProposedCall",
    "ProviderServer",
    "Truncation",
    "serve_provider",
]

_HOMES = {
    "BackendCall": "backend",
    "BackendCallResult": "backend",
    "BackendFailed": "backend",
    "BackendInput": "backend",
    "BackendMessage": "backend",
    "BackendOutput": "backend",
    "BackendReasoning": "backend",
    "BackendRequest": "backend",
    "BackendText": "backend",
    "BackendTool": "backend",
    "BackendUsage": "backend",
    "EmbeddedProvider": "provider",
    "ModelBackend": "backend",
    "OutputFormat": "backend",
    "ProposedCall": "backend",
    "ProviderServer": "server",
    "Truncation": "backend",
    "serve_provider": "server",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
