"""A runtime over HTTP: REST, server-sent events and WebSocket."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.transports.http.app import create_app
    from toolcrib.transports.http.server import HttpServer, serve_http

__all__ = ["HttpServer", "create_app", "serve_http"]

_HOMES = {
    "HttpServer": "toolcrib.transports.http.server",
    "create_app": "toolcrib.transports.http.app",
    "serve_http": "toolcrib.transports.http.server",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
