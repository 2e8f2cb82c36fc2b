"""Tools with an implementation in the box: apply_patch and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.toolkits.apply_patch import apply_patch_tool
    from toolcrib.toolkits.memory import memory_tool

__all__ = [
    "apply_patch_tool",
    "memory_tool",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.toolkits.apply_patch": ("apply_patch_tool",),
            "toolcrib.toolkits.memory": ("memory_tool",),
        },
    )
