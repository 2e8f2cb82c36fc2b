"""MCP: the provider calls tools of a remote server, after a yes where one is required."""

from __future__ import annotations

from typing import Final

from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.mcp.gate import mcp_gate
from toolcrib.tools.mcp.types import (
    ApprovalFilter,
    McpAnswer,
    McpConfig,
    McpRequest,
    McpResult,
    McpTool,
    RequireApproval,
    ToolFilter,
)
from toolcrib.tools.provider_tools import HostedTool

__all__ = [
    "KIND",
    "ApprovalFilter",
    "McpAnswer",
    "McpConfig",
    "McpRequest",
    "McpResult",
    "McpTool",
    "RequireApproval",
    "ToolFilter",
    "mcp_gate",
    "mcp_tool",
]

KIND: Final = McpConfig.kind


def mcp_tool(
    config: McpConfig, *, name: str | None = None, fallback: AnyFallback[McpConfig] = None
) -> HostedTool[McpConfig]:
    """A server's tools. Its name is the server's label unless another is given."""
    return HostedTool[McpConfig](
        kind=KIND,
        name=name or config.server_label.lower(),
        description=f"Tools of the MCP server {config.server_label}.",
        config=config,
        fallback=fallback,
    )
