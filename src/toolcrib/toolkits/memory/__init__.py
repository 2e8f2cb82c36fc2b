"""Memory: the model keeps notes in files under one directory of this machine."""

from __future__ import annotations

import os
from typing import Final, Unpack

from toolcrib.toolkits.memory.commands import MemoryHandler
from toolcrib.toolkits.memory.types import Command, MemoryConfig, MemoryParams, MemoryResult
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.rules import ToolRules

__all__ = [
    "KIND",
    "Command",
    "MemoryConfig",
    "MemoryHandler",
    "MemoryParams",
    "MemoryResult",
    "memory_tool",
]

KIND: Final = "memory"


def memory_tool(
    root: str | os.PathLike[str] | MemoryConfig,
    *,
    provider: str = "anthropic",
    **rules: Unpack[ToolRules],
) -> ProviderTool[MemoryParams, MemoryResult, MemoryConfig]:
    """Return a tool that keeps notes across conversations, in files under `root`, which is created
    if needed.

    The model calls that directory `/memories`. No approval is needed, since only notes are kept
    there; pass `requires_approval=True` to review every command. Providers identify the tool by its
    name, so the name is fixed.
    """
    is_config = isinstance(root, MemoryConfig)
    config = root if is_config else MemoryConfig(os.path.abspath(os.fspath(root)))
    # Concurrent changes of one file would undo each other.
    chosen: ToolRules = {"one_at_a_time": True, **rules}
    return ProviderTool[MemoryParams, MemoryResult, MemoryConfig](
        name=KIND,
        description="View and change the notes kept in files under /memories.",
        provider=provider,
        config=config,
        handler=MemoryHandler(config),
        **chosen,
    )
