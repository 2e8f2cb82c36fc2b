"""A runtime over HTTP: REST, server-sent events and WebSocket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.transports.http.app import create_app
    from toolcrib.transports.http.server import HttpServer, serve_http

__all__ = [
    "HttpServer",
    "create_app",
    "serve_http",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.transports.http.app": ("create_app",),
            "toolcrib.transports.http.server": ("HttpServer", "serve_http"),
        },
    )
