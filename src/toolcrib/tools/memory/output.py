"""What a memory command asks for, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Command: TypeAlias = Literal["view", "create", "str_replace", "insert", "delete", "rename"]


@dataclass(frozen=True, slots=True)
class MemoryParams:
    """One command. Which of the other fields it needs depends on the command."""

    command: Command
    path: str | None = None
    """The file or directory; for all commands but `rename`."""
    view_range: list[int] | None = None
    """The first and the last line to view; -1 is the end."""
    file_text: str | None = None
    """What a file is created with."""
    old_str: str | None = None
    """The text to replace; the file must hold it once."""
    new_str: str | None = None
    """What takes its place; nothing when it is left out."""
    insert_line: int | None = None
    """The line after which to insert; 0 is the beginning."""
    insert_text: str | None = None
    old_path: str | None = None
    """What to rename."""
    new_path: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """What was done or seen, in the words that the model was trained on."""

    command: Command
    text: str

    def render(self) -> str:
        """The text for the model."""
        return self.text
