"""Memories as the model sees them: directories with sizes, files with line numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from toolcrib.toolkits.memory.files import Entry

MOST_LINES: Final = 999_999
_WIDTH: Final = len(str(MOST_LINES))
_UNITS: Final = ("B", "K", "M", "G")


def directory(path: str, size: int, entries: Iterable[Entry]) -> str:
    """A directory and what is in it, each with its size."""
    head = f"Here're the files and directories up to 2 levels deep in {path}, "
    lines = [f"{head}excluding hidden items:", f"{_human(size)}\t{path}"]
    lines += [
        f"{_human(entry.size)}\t{path}/{entry.name}{'/' if entry.is_directory else ''}"
        for entry in entries
    ]
    return "\n".join(lines)


def numbered(lines: Sequence[str], first: int) -> str:
    """Lines with their numbers."""
    return "\n".join(
        f"{str(number).rjust(_WIDTH)}\t{line}" for number, line in enumerate(lines, start=first)
    )


def around(text: str, index: int) -> str:
    """A few lines on both sides of the line at `index`."""
    lines = text.split("\n")
    first = max(0, index - 2)
    return numbered(lines[first : index + 3], first + 1)


def _human(size: int) -> str:
    power = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    amount = size / 1024**power
    return f"{amount:.0f}{_UNITS[power]}" if amount.is_integer() else f"{amount:.1f}{_UNITS[power]}"
