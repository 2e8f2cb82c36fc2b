"""The ways in to a runtime; each speaks its operations and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.transports.peer import Peer
    from toolcrib.transports.pipes import Pipes, claim_pipes
    from toolcrib.transports.stdio import serve_stdio

__all__ = [
    "Peer",
    "Pipes",
    "claim_pipes",
    "serve_stdio",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.transports.peer": ("Peer",),
            "toolcrib.transports.pipes": ("Pipes", "claim_pipes"),
            "toolcrib.transports.stdio": ("serve_stdio",),
        },
    )
