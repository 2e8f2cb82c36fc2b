"""MCP: the provider calls tools of a remote server, after an approval where one is required.

The provider stops and waits for a yes or a no. `mcp_gate` turns that question into a call of a tool
that does nothing: running it means yes, so policy, approvers, grants and the ledger treat it like
any other call.
"""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.errors import InvalidTool
from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.mcp.types import (
    ApprovalFilter,
    McpCall,
    McpCallResult,
    McpConfig,
    McpResult,
    McpTool,
    RequireApproval,
    ToolFilter,
)
from toolcrib.tools.provider_tools import (
    ConfigFunction,
    HostedFields,
    HostedTool,
    ProviderTool,
    declared_config,
)
from toolcrib.tools.rules import ToolRules

__all__ = [
    "KIND",
    "ApprovalFilter",
    "McpCall",
    "McpCallResult",
    "McpConfig",
    "McpResult",
    "McpTool",
    "RequireApproval",
    "ToolFilter",
    "mcp_gate",
    "mcp_tool",
]

KIND: Final = McpConfig.kind


def mcp_tool(
    config: McpConfig | ConfigFunction[McpConfig],
    *,
    name: str | None = None,
    fallback: AnyFallback[McpConfig] = None,
    **fields: Unpack[HostedFields],
) -> HostedTool[McpConfig, McpResult]:
    """Return the tools of a remote server. The default name is the server's label; options that
    come from a function need a `name`.
    """
    label = getattr(config, "server_label", None) or name
    if label is None:
        raise InvalidTool("a server whose options come from a function needs a name=")
    return HostedTool[McpConfig, McpResult](
        kind=KIND,
        name=name or label.lower(),
        description=f"Tools of the MCP server {label}.",
        config=declared_config(config),
        fallback=fallback,
        **fields,
    )


def mcp_gate(
    tool: HostedTool[McpConfig],
    *,
    provider: str,
    name: str | None = None,
    **rules: Unpack[ToolRules],
) -> ProviderTool[McpCall, McpCall, McpConfig]:
    """Return the gate of a server, under the name of the hosted tool. A policy sees the same kind
    and provider.
    """
    chosen: ToolRules = {"requires_approval": True, "is_idempotent": True, **rules}
    return ProviderTool[McpCall, McpCall, McpConfig](
        name=name or tool.name,
        description=f"Let the provider call a tool of the MCP server {tool.config.server_label}.",
        handler=_pass,
        provider=provider,
        config=tool.config,
        **chosen,
    )


def _pass(request: McpCall) -> McpCall:
    return request
