"""The server parts that transports and the embedded provider share: listener, authentication,
origins, tokens, refusals and stop signals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.serving.listener import Listener
    from toolcrib.serving.origins import is_loopback
    from toolcrib.serving.stop_signals import on_stop_signals
    from toolcrib.serving.tokens import (
        Token,
        Tokens,
        default_token_file,
        new_token,
        owner_token,
        read_or_create_tokens,
        read_tokens,
    )

__all__ = [
    "Listener",
    "Token",
    "Tokens",
    "default_token_file",
    "is_loopback",
    "new_token",
    "on_stop_signals",
    "owner_token",
    "read_or_create_tokens",
    "read_tokens",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.serving.listener": ("Listener",),
            "toolcrib.serving.origins": ("is_loopback",),
            "toolcrib.serving.stop_signals": ("on_stop_signals",),
            "toolcrib.serving.tokens": (
                "Token",
                "Tokens",
                "default_token_file",
                "new_token",
                "owner_token",
                "read_or_create_tokens",
                "read_tokens",
            ),
        },
    )
