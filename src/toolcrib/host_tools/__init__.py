"""Tools that the host application defines as JSON Schema and a function."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.host_tools.definition import (
        HostToolDefinition,
        SessionFactory,
        SessionHandler,
        ToolHandler,
        ToolScope,
    )
    from toolcrib.host_tools.host_tool import HostTool
    from toolcrib.host_tools.host_tools_file import (
        HostToolsFile,
        load_host_tools_file,
        parse_host_tools,
    )
    from toolcrib.host_tools.loading import LoadedHostTools, load_host_tools
    from toolcrib.host_tools.mcp_servers import (
        HttpServer,
        McpServerConfig,
        MountTerms,
        StdioServer,
        client_server,
    )
    from toolcrib.host_tools.module_tools import load_host_tools_module
    from toolcrib.host_tools.offer import Offer, Offered, Withheld
    from toolcrib.host_tools.plugins import Plugin, load_host_tools_plugins
    from toolcrib.host_tools.registration import Origin, RegistryChange
    from toolcrib.host_tools.registry import HostToolRegistry, host_tool_registry
    from toolcrib.host_tools.session_tools import SessionTools
    from toolcrib.host_tools.watching import HostToolsWatcher, Reload
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.result import ToolResult

__all__ = [
    "HostTool",
    "HostToolDefinition",
    "HostToolRegistry",
    "HostToolsFile",
    "HostToolsWatcher",
    "HttpServer",
    "LoadedHostTools",
    "McpServerConfig",
    "MountTerms",
    "Offer",
    "Offered",
    "Origin",
    "Plugin",
    "RegistryChange",
    "Reload",
    "SessionFactory",
    "SessionHandler",
    "SessionTools",
    "StdioServer",
    "ToolContext",
    "ToolHandler",
    "ToolResult",
    "ToolScope",
    "Withheld",
    "client_server",
    "host_tool_registry",
    "load_host_tools",
    "load_host_tools_file",
    "load_host_tools_module",
    "load_host_tools_plugins",
    "parse_host_tools",
]

_HOMES = {
    "HostTool": "host_tools.host_tool",
    "HostToolDefinition": "host_tools.definition",
    "HostToolRegistry": "host_tools.registry",
    "HostToolsFile": "host_tools.host_tools_file",
    "HostToolsWatcher": "host_tools.watching",
    "HttpServer": "host_tools.mcp_servers",
    "LoadedHostTools": "host_tools.loading",
    "McpServerConfig": "host_tools.mcp_servers",
    "MountTerms": "host_tools.mcp_servers",
    "Offer": "host_tools.offer",
    "Offered": "host_tools.offer",
    "Origin": "host_tools.registration",
    "Plugin": "host_tools.plugins",
    "RegistryChange": "host_tools.registration",
    "Reload": "host_tools.watching",
    "SessionFactory": "host_tools.definition",
    "SessionHandler": "host_tools.definition",
    "SessionTools": "host_tools.session_tools",
    "StdioServer": "host_tools.mcp_servers",
    "ToolContext": "tools.context",
    "ToolHandler": "host_tools.definition",
    "ToolResult": "tools.result",
    "ToolScope": "host_tools.definition",
    "Withheld": "host_tools.offer",
    "client_server": "host_tools.mcp_servers",
    "host_tool_registry": "host_tools.registry",
    "load_host_tools": "host_tools.loading",
    "load_host_tools_file": "host_tools.host_tools_file",
    "load_host_tools_module": "host_tools.module_tools",
    "load_host_tools_plugins": "host_tools.plugins",
    "parse_host_tools": "host_tools.host_tools_file",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"toolcrib.{_HOMES[name]}"), name)
