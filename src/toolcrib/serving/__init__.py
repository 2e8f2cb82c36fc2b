"""The server parts that transports and the embedded provider share: listener, authentication,
origins, tokens, refusals and stop signals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.logs import LogOptions, write_logs
    from toolcrib.serving.access import AccessOptions
    from toolcrib.serving.connections import ListenerLimits
    from toolcrib.serving.listener import Listener, TlsFiles
    from toolcrib.serving.oidc import OidcIssuer
    from toolcrib.serving.origins import is_loopback
    from toolcrib.serving.stop_signals import on_stop_signals
    from toolcrib.serving.tokens import (
        Token,
        TokenFile,
        Tokens,
        default_token_file,
        default_tokens_file,
        new_token,
        owner_token,
    )

__all__ = [
    "AccessOptions",
    "Listener",
    "ListenerLimits",
    "LogOptions",
    "OidcIssuer",
    "TlsFiles",
    "Token",
    "TokenFile",
    "Tokens",
    "default_token_file",
    "default_tokens_file",
    "is_loopback",
    "new_token",
    "on_stop_signals",
    "owner_token",
    "write_logs",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.logs": ("LogOptions", "write_logs"),
            "toolcrib.serving.access": ("AccessOptions",),
            "toolcrib.serving.connections": ("ListenerLimits",),
            "toolcrib.serving.listener": ("Listener", "TlsFiles"),
            "toolcrib.serving.oidc": ("OidcIssuer",),
            "toolcrib.serving.origins": ("is_loopback",),
            "toolcrib.serving.stop_signals": ("on_stop_signals",),
            "toolcrib.serving.tokens": (
                "Token",
                "TokenFile",
                "Tokens",
                "default_token_file",
                "default_tokens_file",
                "new_token",
                "owner_token",
            ),
        },
    )
