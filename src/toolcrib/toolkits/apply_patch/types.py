"""Options, params and results of the apply_patch tool."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import ToolCaller, check_callers, check_count, check_names

MOST_BYTES: Final = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ApplyPatchConfig:
    """The directory that patches are confined to, and the largest file or diff."""

    kind: ClassVar[str] = "apply_patch"
    root: str
    max_bytes: int = MOST_BYTES
    protected: tuple[str, ...] = (".git",)
    """Names of files and directories that no patch may touch, at any depth."""
    allowed_callers: tuple[ToolCaller, ...] | None = None
    """Who may call it; `None` takes the provider's default, the model alone."""

    def __post_init__(self) -> None:
        check_callers("ApplyPatchConfig.allowed_callers", self.allowed_callers)
        if not isinstance(self.root, str) or not os.path.isabs(self.root):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"ApplyPatchConfig.root must be the absolute path of a directory, not {self.root!r}"
            )
        check_count("ApplyPatchConfig.max_bytes", self.max_bytes, 1, 2**31)
        check_names("ApplyPatchConfig.protected", self.protected)


Operation: TypeAlias = Literal["create_file", "update_file", "delete_file"]


@dataclass(frozen=True, slots=True)
class PatchParams:
    """One change of one file. `diff` creates or updates the file; a deletion has none."""

    operation: Operation
    path: str
    """Relative to the root."""
    diff: str | None = None


@dataclass(frozen=True, slots=True)
class PatchResult:
    """The operation that was carried out, with the number of lines added and removed."""

    operation: Operation
    path: str
    added: int = 0
    removed: int = 0

    def render(self) -> str:
        """Return one line for the model."""
        match self.operation:
            case "create_file":
                return f"Created {self.path} ({self.added} lines)."
            case "update_file":
                return f"Updated {self.path} (+{self.added} -{self.removed} lines)."
            case "delete_file":
                return f"Deleted {self.path}."
