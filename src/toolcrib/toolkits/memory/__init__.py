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
    """Notes that outlive a conversation, in files under `root`, which is made when it is missing.

    The model calls that directory `/memories`. Nobody is asked, because nothing but notes is kept
    there; pass `requires_approval=True` to see every command first. Providers know the tool by its
    name, so it has no other.
    """
    is_config = isinstance(root, MemoryConfig)
    config = root if is_config else MemoryConfig(os.path.abspath(os.fspath(root)))
    # Two changes of one file at the same time would undo each other.
    chosen: ToolRules = {"one_at_a_time": True, **rules}
    return ProviderTool[MemoryParams, MemoryResult, MemoryConfig](
        name=KIND,
        description="View and change the notes kept in files under /memories.",
        provider=provider,
        config=config,
        handler=MemoryHandler(config),
        **chosen,
    )
