"""What a tool is, in every way there is to write one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.decorator import FunctionTool
    from toolcrib.tools.example import ToolExample
    from toolcrib.tools.identity import ToolRef
    from toolcrib.tools.prepared import PreparedTool, as_tool, prepare
    from toolcrib.tools.provider_tools import (
        HostedTool,
        HostedToolConfig,
        HostedToolOutput,
        NativeTool,
        ProviderTool,
    )
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
    "HostedTool": "toolcrib.tools.provider_tools",
    "HostedToolConfig": "toolcrib.tools.provider_tools",
    "HostedToolOutput": "toolcrib.tools.provider_tools",
    "NativeTool": "toolcrib.tools.provider_tools",
    "OpenAICodeInterpreterTool": "toolcrib.adapters.openai.code_interpreter_tool",
    "PreparedTool": "toolcrib.tools.prepared",
    "ProviderTool": "toolcrib.tools.provider_tools",
    "Secret": "toolcrib.tools.secrets",
    "Tool": "toolcrib.tools.tool",
    "ToolContext": "toolcrib.tools.context",
    "ToolExample": "toolcrib.tools.example",
    "ToolRef": "toolcrib.tools.identity",
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
