"""The Agent Client Protocol: a runtime as the agent of an editor, on standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.transports.acp.server import serve_acp

__all__ = [
    "serve_acp",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.transports.acp.server": ("serve_acp",),
        },
    )
