"""Tools that the host application defines as JSON Schema and a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

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
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.result import ToolResult

__all__ = [
    "AvailableTool",
    "HostTool",
    "HostToolDefinition",
    "HostToolRegistry",
    "HostToolsFile",
    "HostToolsWatcher",
    "LoadedHostTools",
    "Origin",
    "Plugin",
    "RegistryChange",
    "Reload",
    "SessionFactory",
    "SessionHandler",
    "SessionTools",
    "ToolAvailability",
    "ToolContext",
    "ToolHandler",
    "ToolResult",
    "ToolScope",
    "UnavailableTool",
    "host_tool_registry",
    "load_host_tools",
    "load_host_tools_file",
    "load_host_tools_module",
    "load_host_tools_plugins",
    "parse_host_tools",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.host_tools.availability": (
                "AvailableTool",
                "ToolAvailability",
                "UnavailableTool",
            ),
            "toolcrib.host_tools.definition": (
                "HostToolDefinition",
                "SessionFactory",
                "SessionHandler",
                "ToolHandler",
                "ToolScope",
            ),
            "toolcrib.host_tools.host_tool": ("HostTool",),
            "toolcrib.host_tools.host_tools_file": (
                "HostToolsFile",
                "load_host_tools_file",
                "parse_host_tools",
            ),
            "toolcrib.host_tools.loader": (
                "LoadedHostTools",
                "Plugin",
                "load_host_tools",
                "load_host_tools_plugins",
            ),
            "toolcrib.host_tools.python_modules": ("load_host_tools_module",),
            "toolcrib.host_tools.registrations": ("Origin", "RegistryChange"),
            "toolcrib.host_tools.registry": ("HostToolRegistry", "host_tool_registry"),
            "toolcrib.host_tools.reload": ("HostToolsWatcher", "Reload"),
            "toolcrib.host_tools.session_tools": ("SessionTools",),
            "toolcrib.tools.context": ("ToolContext",),
            "toolcrib.tools.result": ("ToolResult",),
        },
    )
