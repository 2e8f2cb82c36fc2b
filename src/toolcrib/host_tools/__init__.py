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
    from toolcrib.host_tools.offer import Offer, Offered, Withheld
    from toolcrib.host_tools.registration import Origin, RegistryChange
    from toolcrib.host_tools.registry import HostToolRegistry, host_tool_registry
    from toolcrib.host_tools.session_tools import SessionTools
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.result import ToolResult

__all__ = [
    "HostTool",
    "HostToolDefinition",
    "HostToolRegistry",
    "Offer",
    "Offered",
    "Origin",
    "RegistryChange",
    "SessionFactory",
    "SessionHandler",
    "SessionTools",
    "ToolContext",
    "ToolHandler",
    "ToolResult",
    "ToolScope",
    "Withheld",
    "host_tool_registry",
]

_HOMES = {
    "HostTool": "toolcrib.host_tools.host_tool",
    "HostToolDefinition": "toolcrib.host_tools.definition",
    "HostToolRegistry": "toolcrib.host_tools.registry",
    "Offer": "toolcrib.host_tools.offer",
    "Offered": "toolcrib.host_tools.offer",
    "Origin": "toolcrib.host_tools.registration",
    "RegistryChange": "toolcrib.host_tools.registration",
    "SessionFactory": "toolcrib.host_tools.definition",
    "SessionHandler": "toolcrib.host_tools.definition",
    "SessionTools": "toolcrib.host_tools.session_tools",
    "ToolContext": "toolcrib.tools.context",
    "ToolHandler": "toolcrib.host_tools.definition",
    "ToolResult": "toolcrib.tools.result",
    "ToolScope": "toolcrib.host_tools.definition",
    "Withheld": "toolcrib.host_tools.offer",
    "host_tool_registry": "toolcrib.host_tools.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
