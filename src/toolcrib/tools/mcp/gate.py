"""The question whether a remote server may be called, as a call that anybody can decide on.

A provider that stops to ask wants a yes or a no. The gate is a tool that does nothing: to run it
is to say yes, so policy, approvers, grants and the ledger treat the question like any other call.
"""

from __future__ import annotations

from typing import Unpack

from toolcrib.tools.hosted import HostedTool
from toolcrib.tools.mcp.config import McpConfig
from toolcrib.tools.mcp.output import McpRequest
from toolcrib.tools.rules import ToolRules
from toolcrib.tools.tool import Tool


def mcp_gate(
    tool: HostedTool[McpConfig], *, name: str | None = None, **rules: Unpack[ToolRules]
) -> Tool[McpRequest, McpRequest]:
    """The gate before a server's tools, under the name of the hosted tool."""
    chosen: ToolRules = {"requires_approval": True, "is_idempotent": True, **rules}
    return Tool[McpRequest, McpRequest](
        name=name or tool.name,
        description=f"Let the provider call a tool of the MCP server {tool.config.server_label}.",
        handler=_pass,
        **chosen,
    )


def _pass(request: McpRequest) -> McpRequest:
    return request
