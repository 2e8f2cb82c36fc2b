"""Apply patch: the model writes a diff, and this process applies it under one directory."""

from __future__ import annotations

import os
from typing import Final, Unpack

from toolcrib.errors import PatchFailed
from toolcrib.toolkits.apply_patch.files import PatchHandler
from toolcrib.toolkits.apply_patch.placement import apply_diff, text_of_new
from toolcrib.toolkits.apply_patch.types import (
    ApplyPatchConfig,
    Operation,
    PatchParams,
    PatchResult,
)
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.rules import ToolRules

__all__ = [
    "KIND",
    "ApplyPatchConfig",
    "Operation",
    "PatchFailed",
    "PatchHandler",
    "PatchParams",
    "PatchResult",
    "apply_diff",
    "apply_patch_tool",
    "text_of_new",
]

KIND: Final = ApplyPatchConfig.kind


def apply_patch_tool(
    root: str | os.PathLike[str] | ApplyPatchConfig,
    *,
    name: str = "apply_patch",
    provider: str = "openai",
    **rules: Unpack[ToolRules],
) -> ProviderTool[PatchParams, PatchResult, ApplyPatchConfig]:
    """Return a tool that creates, updates and deletes files under `root`, one per call.

    Each patch needs an approval unless `requires_approval=False` is passed.
    """
    is_config = isinstance(root, ApplyPatchConfig)
    config = root if is_config else ApplyPatchConfig(os.path.abspath(os.fspath(root)))
    # Concurrent patches of one file would undo each other.
    chosen: ToolRules = {"requires_approval": True, "one_at_a_time": True, **rules}
    return ProviderTool[PatchParams, PatchResult, ApplyPatchConfig](
        name=name,
        description="Create, update or delete one file with a diff.",
        provider=provider,
        config=config,
        handler=PatchHandler(config),
        **chosen,
    )
