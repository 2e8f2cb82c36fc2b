"""Other MCP servers as a source of tools: connected to, listed, called, followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.mcp_client.config import (
        HttpServerConfig,
        McpServerConfig,
        MountTerms,
        StdioServerConfig,
        client_server,
    )
    from toolcrib.mcp_client.server import MountedServer

__all__ = [
    "HttpServerConfig",
    "McpServerConfig",
    "MountTerms",
    "MountedServer",
    "StdioServerConfig",
    "client_server",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.mcp_client.config": (
                "HttpServerConfig",
                "McpServerConfig",
                "MountTerms",
                "StdioServerConfig",
                "client_server",
            ),
            "toolcrib.mcp_client.server": ("MountedServer",),
        },
    )
