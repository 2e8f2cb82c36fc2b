"""Web APIs as tools: one tool for each operation of an OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.openapi.api_tools import ApiOptions, ApiTools, asgi_tools, openapi_tools
    from toolcrib.openapi.document import read_document

__all__ = ["ApiOptions", "ApiTools", "asgi_tools", "openapi_tools", "read_document"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.openapi.api_tools": ("ApiOptions", "ApiTools", "asgi_tools", "openapi_tools"),
            "toolcrib.openapi.document": ("read_document",),
        },
    )
