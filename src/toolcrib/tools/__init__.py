"""What a tool is, in every way there is to write one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.decorator import FunctionTool
    from toolcrib.tools.example import ToolExample
    from toolcrib.tools.hosted import HostedTool, HostedToolConfig, HostedToolOutput
    from toolcrib.tools.native import NativeTool
    from toolcrib.tools.prepared import PreparedTool, as_tool, prepare
    from toolcrib.tools.provider import ProviderTool
    from toolcrib.tools.ref import ToolRef
    from toolcrib.tools.result import ToolRenderableResult, ToolResult
    from toolcrib.tools.secrets import Secret
    from toolcrib.tools.tool import Tool

__all__ = [
    "FunctionTool",
    "HostedTool",
    "HostedToolConfig",
    "HostedToolOutput",
    "NativeTool",
    "PreparedTool",
    "ProviderTool",
    "Secret",
    "Tool",
    "ToolContext",
    "ToolExample",
    "ToolRef",
    "ToolRenderableResult",
    "ToolResult",
    "as_tool",
    "prepare",
]

# The decorator is `toolcrib.tool`: here its name would hide behind the module `tools.tool`.
_HOMES = {
    "FunctionTool": "decorator",
    "HostedTool": "hosted",
    "HostedToolConfig": "hosted",
    "HostedToolOutput": "hosted",
    "NativeTool": "native",
    "PreparedTool": "prepared",
    "ProviderTool": "provider",
    "Secret": "secrets",
    "Tool": "tool",
    "ToolContext": "context",
    "ToolExample": "example",
    "ToolRef": "ref",
    "ToolRenderableResult": "result",
    "ToolResult": "result",
    "as_tool": "prepared",
    "prepare": "prepared",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
