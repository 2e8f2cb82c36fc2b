"""Tools that the host application defines as JSON Schema and a function."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.host_tools.definition import HostToolDefinition, ToolHandler, ToolScope
    from toolcrib.host_tools.host_tool import HostTool
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.result import ToolResult

__all__ = [
    "HostTool",
    "HostToolDefinition",
    "ToolContext",
    "ToolHandler",
    "ToolResult",
    "ToolScope",
]

_HOMES = {
    "HostTool": "toolcrib.host_tools.host_tool",
    "HostToolDefinition": "toolcrib.host_tools.definition",
    "ToolContext": "toolcrib.tools.context",
    "ToolHandler": "toolcrib.host_tools.definition",
    "ToolResult": "toolcrib.tools.result",
    "ToolScope": "toolcrib.host_tools.definition",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
