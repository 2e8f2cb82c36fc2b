"""What a tool is, in every way there is to write one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.decorator import FunctionTool
    from toolcrib.tools.example import ToolExample
    from toolcrib.tools.hosted import HostedTool, HostedToolConfig, HostedToolOutput
    from toolcrib.tools.native import NativeTool
    from toolcrib.tools.openai_code_interpreter import OpenAICodeInterpreterTool
    from toolcrib.tools.prepared import PreparedTool, as_tool, prepare
    from toolcrib.tools.provider import ProviderTool
    from toolcrib.tools.ref import ToolRef
    from toolcrib.tools.result import ToolRenderableResult, ToolResult
    from toolcrib.tools.secrets import Secret
    from toolcrib.tools.tool import Tool
    from toolcrib.vfs import HostMount, VfsPath

__all__ = [
    "FunctionTool",
    "HostMount",
    "HostedTool",
    "HostedToolConfig",
    "HostedToolOutput",
    "NativeTool",
    "OpenAICodeInterpreterTool",
    "PreparedTool",
    "ProviderTool",
    "Secret",
    "Tool",
    "ToolContext",
    "ToolExample",
    "ToolRef",
    "ToolRenderableResult",
    "ToolResult",
    "VfsPath",
    "as_tool",
    "prepare",
]

# The decorator is `toolcrib.tool`: here its name would hide behind the module `tools.tool`.
_HOMES = {
    "FunctionTool": "toolcrib.tools.decorator",
    "HostMount": "toolcrib.vfs",
    "HostedTool": "toolcrib.tools.hosted",
    "HostedToolConfig": "toolcrib.tools.hosted",
    "HostedToolOutput": "toolcrib.tools.hosted",
    "NativeTool": "toolcrib.tools.native",
    "OpenAICodeInterpreterTool": "toolcrib.tools.openai_code_interpreter",
    "PreparedTool": "toolcrib.tools.prepared",
    "ProviderTool": "toolcrib.tools.provider",
    "Secret": "toolcrib.tools.secrets",
    "Tool": "toolcrib.tools.tool",
    "ToolContext": "toolcrib.tools.context",
    "ToolExample": "toolcrib.tools.example",
    "ToolRef": "toolcrib.tools.ref",
    "ToolRenderableResult": "toolcrib.tools.result",
    "ToolResult": "toolcrib.tools.result",
    "VfsPath": "toolcrib.vfs",
    "as_tool": "toolcrib.tools.prepared",
    "prepare": "toolcrib.tools.prepared",
}


if not TYPE_CHECKING:
    # Out of a type checker's sight, or it would take every misspelt name for Any.
    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
