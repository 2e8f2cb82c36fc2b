"""What a tool is: declaration, identity, arguments, result; one package per hosted kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
    from toolcrib.tools.artifacts import read_artifact
    from toolcrib.tools.audience import Audience
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.decorator import FunctionTool
    from toolcrib.tools.example import ToolExample
    from toolcrib.tools.fallback import Fallback
    from toolcrib.tools.function_options import FreeForm, FunctionOptions, Namespace
    from toolcrib.tools.identity import Place, ToolRef
    from toolcrib.tools.prepared_tool import PreparedTool, as_tool, prepare
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
    from toolcrib.tools.tool_transform import transform
    from toolcrib.vfs import HostMount, VfsPath

__all__ = [
    "Audience",
    "Fallback",
    "FreeForm",
    "FunctionOptions",
    "FunctionTool",
    "HostMount",
    "HostedTool",
    "HostedToolConfig",
    "HostedToolOutput",
    "Namespace",
    "NativeTool",
    "OpenAICodeInterpreterTool",
    "Place",
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
    "read_artifact",
    "transform",
]

# The decorator is exported as `toolcrib.tool`: the module `tools.tool` would hide it here.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.adapters.openai.code_interpreter_tool": ("OpenAICodeInterpreterTool",),
            "toolcrib.tools.artifacts": ("read_artifact",),
            "toolcrib.tools.audience": ("Audience",),
            "toolcrib.tools.context": ("ToolContext",),
            "toolcrib.tools.decorator": ("FunctionTool",),
            "toolcrib.tools.example": ("ToolExample",),
            "toolcrib.tools.fallback": ("Fallback",),
            "toolcrib.tools.function_options": ("FreeForm", "FunctionOptions", "Namespace"),
            "toolcrib.tools.identity": ("Place", "ToolRef"),
            "toolcrib.tools.prepared_tool": ("PreparedTool", "as_tool", "prepare"),
            "toolcrib.tools.provider_tools": (
                "HostedTool",
                "HostedToolConfig",
                "HostedToolOutput",
                "NativeTool",
                "ProviderTool",
            ),
            "toolcrib.tools.result": ("ToolRenderableResult", "ToolResult"),
            "toolcrib.tools.secrets": ("Secret",),
            "toolcrib.tools.tool": ("Tool",),
            "toolcrib.tools.tool_transform": ("transform",),
            "toolcrib.vfs": ("HostMount", "VfsPath"),
        },
    )
