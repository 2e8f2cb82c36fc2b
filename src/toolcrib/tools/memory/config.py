"""Where memories are kept, and how much of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Final

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
