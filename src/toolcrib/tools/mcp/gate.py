"""The question whether a remote server may be called, as a call that anybody can decide on.

A provider that stops to ask wants a yes or a no. The gate is a tool that does nothing: to run it
is to say yes, so policy, approvers, grants and the ledger treat the question like any other call.
"""

from __future__ import annotations

from typing import Unpack

from toolcrib.tools.mcp.types import McpConfig, McpRequest
from toolcrib.tools.provider_tools import HostedTool, ProviderTool
from toolcrib.tools.rules import ToolRules


def mcp_gate(
    tool: HostedTool[McpConfig],
    *,
    provider: str,
    name: str | None = None,
    **rules: Unpack[ToolRules],
) -> ProviderTool[McpRequest, McpRequest, McpConfig]:
    """The gate before a server's tools, under the name of the hosted tool. To a policy it is of
    the same kind and provider.
    """
    chosen: ToolRules = {"requires_approval": True, "is_idempotent": True, **rules}
    return ProviderTool[McpRequest, McpRequest, McpConfig](
        name=name or tool.name,
        description=f"Let the provider call a tool of the MCP server {tool.config.server_label}.",
        handler=_pass,
        provider=provider,
        config=tool.config,
        **chosen,
    )


def _pass(request: McpRequest) -> McpRequest:
    return request
