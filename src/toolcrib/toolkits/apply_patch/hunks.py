"""Hunks of a diff of one file.

Two dialects are read alike. In V4A a hunk starts with `@@`, optionally followed by a line of the
file that comes before it, and has no line numbers. In a unified diff it starts with `@@ -3,4 +3,5
@@`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from toolcrib.errors import PatchFailed

END_OF_FILE: Final = "*** End of File"

_NUMBERED = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+\d+(?:,\d+)? @@.*")
_GIT_HEADER = ("diff --git ", "index ", "new file mode ", "old mode ", "new mode ")


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change: the lines that the file must have, and what replaces them."""

    number: int
    diff_line: int
    """The line of the diff where the hunk starts, counted from 1."""
    anchors: tuple[str, ...]
    old_start: int | None
    """The line of the file where a unified diff says that the hunk starts, counted from 1."""
    lines: tuple[tuple[str, str], ...]
    """Marks and lines: ' ' is kept, '-' is removed, '+' is added."""
    is_at_end: bool = False
    is_old_unterminated: bool = False
    """The diff says that the file's last line ends without a newline."""
    is_new_unterminated: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that the file must have."""
        return [text for mark, text in self.lines if mark != "+"]

    @property
    def where(self) -> str:
        """The position of the hunk, for a message."""
        return f"hunk {self.number} (line {self.diff_line} of the diff)"


def split_lines(text: str) -> tuple[list[str], bool]:
    """Return the lines of a text, and whether the last one ends with a newline. Only LF ends a
    line.
    """
    lines = text.split("\n")
    is_terminated = lines[-1] == ""
    return (lines[:-1] if is_terminated else lines), is_terminated


def read_hunks(diff: str) -> list[Hunk]:
    """Return the hunks of a diff that changes a file. Raises `PatchFailed` for any other text."""
    lines, _ = split_lines(diff)
    skipped = _header_length(lines)
    hunks = [
        draft.hunk(number)
        for number, draft in enumerate(_drafts(lines[skipped:], skipped + 1), start=1)
    ]
    if not any(mark != " " for hunk in hunks for mark, _ in hunk.lines):
        raise PatchFailed("the diff changes nothing: it has no line that starts with '+' or '-'")
    for hunk in hunks:
        if not hunk.lines:
            raise PatchFailed(f"{hunk.where} has no lines after its '@@'")
    return hunks


@dataclass(slots=True)
class _Draft:
    """A hunk while it is being read."""

    diff_line: int
    anchors: list[str] = field(default_factory=list[str])
    old_start: int | None = None
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    is_at_end: bool = False
    unterminated: set[str] = field(default_factory=set[str])

    def take_head(self, line: str) -> None:
        """Read a line that starts with `@@`."""
        numbered = _NUMBERED.fullmatch(line)
        anchor = line[2:].removeprefix(" ").removesuffix("\r")
        if numbered:
            self.old_start = int(numbered[1])
        elif anchor.strip():
            self.anchors.append(anchor)

    def take_body(self, line: str, number: int) -> None:
        """Read a line of the change. A context line may have lost its only space."""
        is_empty = line in ("", "\r")
        mark, text = (" ", line) if is_empty else (line[0], line[1:])
        if line.rstrip() == END_OF_FILE:
            self.is_at_end = True
        elif mark == "\\" and self.lines:
            self.unterminated.add(self.lines[-1][0])
        elif mark in " +-" and not self.is_at_end:
            self.lines.append((mark, text))
        elif not is_empty:
            raise PatchFailed(_misplaced(line, number))

    def hunk(self, number: int) -> Hunk:
        """Return the finished hunk."""
        return Hunk(
            number=number,
            diff_line=self.diff_line,
            anchors=tuple(self.anchors),
            old_start=self.old_start,
            lines=tuple(self.lines),
            is_at_end=self.is_at_end,
            is_old_unterminated=bool(self.unterminated & {" ", "-"}),
            is_new_unterminated=bool(self.unterminated & {" ", "+"}),
        )


def _drafts(lines: Sequence[str], first: int) -> Iterator[_Draft]:
    draft: _Draft | None = None
    for number, line in enumerate(lines, start=first):
        is_head = line.startswith("@@")
        # Heads may be stacked: each narrows the search further.
        if draft is None or (is_head and (draft.lines or draft.is_at_end)):
            if draft is not None:
                yield draft
            draft = _Draft(number)
        if is_head:
            draft.take_head(line)
        else:
            draft.take_body(line, number)
    if draft is not None:
        yield draft


def _header_length(lines: Sequence[str]) -> int:
    """Return the number of header lines of a unified diff before the first hunk.

    They count only if a hunk follows: elsewhere `--- x` may be the removal of a line `-- x`.
    """
    start = next((i for i, line in enumerate(lines) if not line.startswith(_GIT_HEADER)), 0)
    names, head = lines[start : start + 2], lines[start + 2 : start + 3]
    is_header = [line[:4] for line in names] == ["--- ", "+++ "]
    return start + 2 if is_header and head and head[0].startswith("@@") else start


def _misplaced(line: str, number: int) -> str:
    return (
        f"line {number} of the diff is {shown(line)}; every line must start with ' ', '+', '-' or "
        f"'@@', and only the hunks of one file belong in the diff"
    )


def shown(line: str) -> str:
    """Return a line for a message, truncated when it is long."""
    return repr(line if len(line) <= 80 else line[:77] + "...")
