"""Tools that the host application defines as JSON Schema and a function."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.host_tools.availability import AvailableTool, ToolAvailability, UnavailableTool
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
    from toolcrib.host_tools.loader import (
        LoadedHostTools,
        Plugin,
        load_host_tools,
        load_host_tools_plugins,
    )
    from toolcrib.host_tools.python_modules import load_host_tools_module
    from toolcrib.host_tools.registrations import Origin, RegistryChange
    from toolcrib.host_tools.registry import HostToolRegistry, host_tool_registry
    from toolcrib.host_tools.reload import HostToolsWatcher, Reload
    from toolcrib.host_tools.session_tools import SessionTools
    from toolcrib.mcp_client.config import (
        HttpServer,
        McpServerConfig,
        MountTerms,
        StdioServer,
        client_server,
    )
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.result import ToolResult

__all__ = [
    "AvailableTool",
    "HostTool",
    "HostToolDefinition",
    "HostToolRegistry",
    "HostToolsFile",
    "HostToolsWatcher",
    "HttpServer",
    "LoadedHostTools",
    "McpServerConfig",
    "MountTerms",
    "Origin",
    "Plugin",
    "RegistryChange",
    "Reload",
    "SessionFactory",
    "SessionHandler",
    "SessionTools",
    "StdioServer",
    "ToolAvailability",
    "ToolContext",
    "ToolHandler",
    "ToolResult",
    "ToolScope",
    "UnavailableTool",
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
    "HostToolsWatcher": "host_tools.reload",
    "HttpServer": "mcp_client.config",
    "LoadedHostTools": "host_tools.loader",
    "McpServerConfig": "mcp_client.config",
    "MountTerms": "mcp_client.config",
    "ToolAvailability": "host_tools.availability",
    "AvailableTool": "host_tools.availability",
    "Origin": "host_tools.registrations",
    "Plugin": "host_tools.loader",
    "RegistryChange": "host_tools.registrations",
    "Reload": "host_tools.reload",
    "SessionFactory": "host_tools.definition",
    "SessionHandler": "host_tools.definition",
    "SessionTools": "host_tools.session_tools",
    "StdioServer": "mcp_client.config",
    "ToolContext": "tools.context",
    "ToolHandler": "host_tools.definition",
    "ToolResult": "tools.result",
    "ToolScope": "host_tools.definition",
    "UnavailableTool": "host_tools.availability",
    "client_server": "mcp_client.config",
    "host_tool_registry": "host_tools.registry",
    "load_host_tools": "host_tools.loader",
    "load_host_tools_file": "host_tools.host_tools_file",
    "load_host_tools_module": "host_tools.python_modules",
    "load_host_tools_plugins": "host_tools.loader",
    "parse_host_tools": "host_tools.host_tools_file",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"toolcrib.{_HOMES[name]}"), name)
