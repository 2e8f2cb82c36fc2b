"""What a patch asks for, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Operation: TypeAlias = Literal["create_file", "update_file", "delete_file"]


@dataclass(frozen=True, slots=True)
class PatchParams:
    """One change of one file. `diff` says how a file is made or changed; deleting needs none."""

    operation: Operation
    path: str
    """Relative to the root."""
    diff: str | None = None


@dataclass(frozen=True, slots=True)
class PatchResult:
    """What was done, with the number of lines that came and went."""

    operation: Operation
    path: str
    added: int = 0
    removed: int = 0

    def render(self) -> str:
        """One line for the model."""
        match self.operation:
            case "create_file":
                return f"Created {self.path} ({self.added} lines)."
            case "update_file":
                return f"Updated {self.path} (+{self.added} -{self.removed} lines)."
            case "delete_file":
                return f"Deleted {self.path}."
