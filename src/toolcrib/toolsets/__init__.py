"""Tools written as classes, and the toolset that runs them with hooks and approval."""

from __future__ import annotations

from toolcrib.calls.hooks import GlobalHooks
from toolcrib.toolsets.base_tool import BaseTool
from toolcrib.toolsets.base_toolset import BaseToolset, HookableToolsetTool
from toolcrib.toolsets.governance import govern, govern_agent
from toolcrib.toolsets.toolset import Toolset

__all__ = [
    "BaseTool",
    "BaseToolset",
    "GlobalHooks",
    "HookableToolsetTool",
    "Toolset",
    "govern",
    "govern_agent",
]
