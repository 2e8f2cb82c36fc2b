"""A runtime as an MCP server, on the official SDK: stdio and Streamable HTTP."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.transports.mcp.options import ElicitedApproval, McpOptions
    from toolcrib.transports.mcp.request import McpRequest, current_request
    from toolcrib.transports.mcp.server import McpServer

__all__ = ["ElicitedApproval", "McpOptions", "McpRequest", "McpServer", "current_request"]

_HOMES = {
    "ElicitedApproval": "options",
    "McpOptions": "options",
    "McpRequest": "request",
    "McpServer": "server",
    "current_request": "request",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
