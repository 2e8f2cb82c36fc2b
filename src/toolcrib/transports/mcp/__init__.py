"""A runtime as an MCP server, on the official SDK: stdio and Streamable HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.transports.mcp.options import ElicitedApproval, McpOptions
    from toolcrib.transports.mcp.request import McpRequest, current_request
    from toolcrib.transports.mcp.server import McpServer

__all__ = [
    "ElicitedApproval",
    "McpOptions",
    "McpRequest",
    "McpServer",
    "current_request",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.transports.mcp.options": ("ElicitedApproval", "McpOptions"),
            "toolcrib.transports.mcp.request": ("McpRequest", "current_request"),
            "toolcrib.transports.mcp.server": ("McpServer",),
        },
    )
