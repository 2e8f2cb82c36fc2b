"""The embedded provider: a Responses API in the process, with hosted tools really executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.backend import (
        Answered,
        Brain,
        BrainFailed,
        Called,
        Choice,
        Cut,
        CutReason,
        Offer,
        OutputFormat,
        Piece,
        Proposed,
        Question,
        Role,
        Said,
        Spent,
        Text,
        Thought,
        Turn,
    )
    from toolcrib.embedded.provider import LocalProvider
    from toolcrib.embedded.server import ProviderServer, serve_provider

__all__ = [
    "Answered",
    "Brain",
    "BrainFailed",
    "Called",
    "Choice",
    "Cut",
    "CutReason",
    "LocalProvider",
    "Offer",
    "OutputFormat",
    "Piece",
    "Proposed",
    "ProviderServer",
    "Question",
    "Role",
    "Said",
    "Spent",
    "Text",
    "Thought",
    "Turn",
    "serve_provider",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.backend": (
                "Answered",
                "Brain",
                "BrainFailed",
                "Called",
                "Choice",
                "Cut",
                "CutReason",
                "Offer",
                "OutputFormat",
                "Piece",
                "Proposed",
                "Question",
                "Role",
                "Said",
                "Spent",
                "Text",
                "Thought",
                "Turn",
            ),
            "toolcrib.embedded.provider": ("LocalProvider",),
            "toolcrib.embedded.server": ("ProviderServer", "serve_provider"),
        },
    )
