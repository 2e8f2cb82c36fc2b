"""Options, params and results of the memory tool."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import check_count

_MOST: Final = 2**31


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """The directory that holds the memories, and how large they may grow."""

    kind: ClassVar[str] = "memory"

    root: str
    max_bytes: int = 1024 * 1024
    """The largest file."""
    max_total_bytes: int = 64 * 1024 * 1024
    """All files together."""
    max_entries: int = 10_000
    """How many files and directories."""

    def __post_init__(self) -> None:
        if not isinstance(self.root, str) or not os.path.isabs(self.root):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"MemoryConfig.root must be the absolute path of a directory, not {self.root!r}"
            )
        for name in ("max_bytes", "max_total_bytes", "max_entries"):
            value = getattr(self, name)
            if value is None:
                raise InvalidTool(f"MemoryConfig.{name} must be a whole number, not None")
            check_count(f"MemoryConfig.{name}", value, 1, _MOST)


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
