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
    """The directory of the memories, and their limits."""

    kind: ClassVar[str] = "memory"

    root: str
    max_bytes: int = 1024 * 1024
    """The size of the largest file."""
    max_total_bytes: int = 64 * 1024 * 1024
    """The size of all files together."""
    max_entries: int = 10_000
    """The number of files and directories."""

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
    """One command. The other fields that it needs depend on the command."""

    command: Command
    path: str | None = None
    """The file or directory; for all commands but `rename`."""
    view_range: list[int] | None = None
    """The first and the last line to view; -1 is the end."""
    file_text: str | None = None
    """The content of a new file."""
    old_str: str | None = None
    """The text to replace; it must occur exactly once."""
    new_str: str | None = None
    """The replacement; empty when omitted."""
    insert_line: int | None = None
    """The line after which to insert; 0 is the beginning."""
    insert_text: str | None = None
    old_path: str | None = None
    """The file or directory to rename."""
    new_path: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """The result of a command, in the words that models are trained on."""

    command: Command
    text: str

    def render(self) -> str:
        """Return the text for the model."""
        return self.text
