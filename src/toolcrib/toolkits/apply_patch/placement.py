"""Where the hunks of a diff belong in a file, and the text with the diff applied."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolcrib.errors import PatchFailed
from toolcrib.toolkits.apply_patch.hunks import Hunk, read_hunks, shown, split_lines

MOST_COMPARED = 20_000_000
"""The most lines compared for one diff. Only a malicious diff needs more."""


class Places:
    """The lines of a file, indexed for search.

    Lines that differ only in trailing whitespace count as equal when there is no exact match:
    models often drop it.
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._bare = [line.rstrip() for line in lines]
        self._where: dict[str, list[int]] = {}
        for index, line in enumerate(self._bare):
            self._where.setdefault(line, []).append(index)
        self._left = MOST_COMPARED

    def find(self, hunk: Hunk, start: int) -> tuple[int, Hunk]:
        """Return the index at or after `start` where the hunk belongs, and the hunk that fits
        there.

        Raises `PatchFailed` when there is no such place, or more than one.
        """
        anchor = self._anchor(hunk, start)
        if not hunk.old:
            return self._insertion(hunk, start, anchor), hunk
        begin = start if anchor is None else anchor
        starts = self._matches(hunk.old, begin)
        if hunk.is_at_end:
            starts = self._at_end(hunk, starts)
        if not starts:
            return self._find_shorter(hunk, start, begin)
        return self._choose(hunk, starts, anchor), hunk

    def _find_shorter(self, hunk: Hunk, start: int, begin: int) -> tuple[int, Hunk]:
        """Try without a last empty line: some models take the final newline of a file for one."""
        shorter = replace(hunk, lines=hunk.lines[:-1])
        if hunk.lines[-1] == (" ", "") and shorter.old:
            starts = self._at_end(shorter, self._matches(shorter.old, begin))
            if starts:
                return starts[0], shorter
        raise PatchFailed(self._explain(hunk, start, begin))

    def _at_end(self, hunk: Hunk, starts: list[int]) -> list[int]:
        return [index for index in starts if index + len(hunk.old) == len(self.lines)]

    def _choose(self, hunk: Hunk, starts: list[int], anchor: int | None) -> int:
        if hunk.old_start is not None:
            wanted = hunk.old_start - 1
            return min(starts, key=lambda index: abs(index - wanted))
        if len(starts) > 1 and anchor is None:
            places = ", ".join(str(index + 1) for index in starts[:5])
            raise PatchFailed(
                f"{hunk.where} fits in more than one place (lines {places}"
                f"{', ...' if len(starts) > 5 else ''}); add more context, or an '@@' line with "
                "a line of the file that comes before"
            )
        return starts[0]

    def _insertion(self, hunk: Hunk, start: int, anchor: int | None) -> int:
        """Return where to insert lines that have no context."""
        if hunk.is_at_end or not self.lines:
            return len(self.lines)
        if hunk.old_start is not None and start <= hunk.old_start <= len(self.lines):
            return hunk.old_start
        if anchor is not None:
            return anchor + 1
        raise PatchFailed(
            f"{hunk.where} adds lines but does not say where; add a line of context before or "
            f"after them{self._lost_anchor(hunk)}"
        )

    def _anchor(self, hunk: Hunk, start: int) -> int | None:
        """Return the line that the anchors lead to, or `None`.

        A missing anchor is no failure yet: the context may be enough to find the place.
        """
        index: int | None = None
        for anchor in hunk.anchors:
            begin = start if index is None else index + 1
            index = self._line(anchor, begin)
            if index is None:
                return None
        return index

    def _line(self, text: str, start: int) -> int | None:
        exact = self._matches([text], start)
        if exact:
            return exact[0]
        wanted = text.strip()
        later = range(start, len(self.lines))
        self._spend(len(later))
        return next((index for index in later if self._bare[index].strip() == wanted), None)

    def _matches(self, old: Sequence[str], start: int) -> list[int]:
        """Return every place at or after `start` with these lines: exact, else loose."""
        bare = [line.rstrip() for line in old]
        # The line that is rarest in the file leaves the fewest places to look at.
        offset = min(range(len(bare)), key=lambda i: len(self._where.get(bare[i], ())))
        rare = self._where.get(bare[offset], [])
        candidates = rare[bisect_left(rare, start + offset) :]
        self._spend(len(candidates) * len(old))
        size = len(old)
        starts = [index - offset for index in candidates]
        loose = [i for i in starts if self._bare[i : i + size] == bare]
        exact = [i for i in loose if self.lines[i : i + size] == list(old)]
        return exact or loose

    def _spend(self, lines: int) -> None:
        self._left -= lines
        if self._left < 0:
            raise PatchFailed("the diff takes too long to place; split it into smaller ones")

    def _explain(self, hunk: Hunk, start: int, begin: int) -> str:
        """Explain which part of the hunk did not match, and where it came closest."""
        elsewhere = self._matches(hunk.old, 0)
        if elsewhere:
            return f"{hunk.where} fits at line {elsewhere[0] + 1}, " + _misfit(
                elsewhere[0], start, begin
            )
        begins = self._matches(hunk.old[:1], begin)
        if begins:
            return self._first_difference(hunk, begins)
        after = f" from line {begin + 1} on" if begin else ""
        return (
            f"{hunk.where} does not match: the file has no line {shown(hunk.old[0])}{after}"
            f"{self._lost_anchor(hunk)}"
        )

    def _first_difference(self, hunk: Hunk, begins: Sequence[int]) -> str:
        index, length = self._closest(hunk.old, begins[:100])
        end = index + length
        has = shown(self.lines[end]) if end < len(self.lines) else "no more lines"
        return (
            f"{hunk.where} does not match: its first {length} line(s) fit at line {index + 1}, "
            f"but at line {end + 1} the file has {has} where the diff has "
            f"{shown(hunk.old[length])}"
        )

    def _closest(self, old: Sequence[str], begins: Sequence[int]) -> tuple[int, int]:
        """Return the start that fits for the most lines, and how many fit there."""
        lengths = [(self._common(old, index), -index) for index in begins]
        length, index = max(lengths)
        return -index, length

    def _common(self, old: Sequence[str], index: int) -> int:
        here = self._bare[index : index + len(old)]
        self._spend(len(here))
        pairs = zip(old, here, strict=False)
        return next((n for n, (a, b) in enumerate(pairs) if a.rstrip() != b), len(here))

    def _lost_anchor(self, hunk: Hunk) -> str:
        lost = [anchor for anchor in hunk.anchors if self._line(anchor, 0) is None]
        return f"; nor is there a line {shown(lost[0])} to start from" if lost else ""


def _misfit(index: int, start: int, begin: int) -> str:
    if index < start:
        return (
            f"but the hunk before it reaches to line {start}; put the hunks in the order of the "
            "file, without overlap"
        )
    if index < begin:
        return f"which is before its '@@' line, at line {begin + 1}"
    return "but that is not the end of the file"


def apply_diff(text: str, diff: str) -> str:
    """Return `text` with the whole diff applied. Raises `PatchFailed`.

    Line ends of the file are kept; lines added to a file with CR LF get CR LF.
    """
    lines, is_terminated = split_lines(text)
    hunks = read_hunks(diff)
    changed = list(_changed(lines, hunks))
    if any(hunk.is_new_unterminated for hunk in hunks):
        is_terminated = False
    elif any(hunk.is_old_unterminated for hunk in hunks):
        is_terminated = True
    return _joined(changed, is_terminated)


def text_of_new(diff: str) -> str:
    """Return the text of the file that the diff creates. Raises `PatchFailed`."""
    if not any(line.startswith("@@") for line in diff.split("\n")):
        return _text_of_plus_lines(diff)
    hunks = read_hunks(diff)
    for hunk in hunks:
        if hunk.old or hunk.anchors:
            raise PatchFailed(
                f"{hunk.where} expects lines that are there already, but the file is new; "
                "start every line of it with '+'"
            )
    added = [text for hunk in hunks for _, text in hunk.lines]
    return _joined(added, not any(hunk.is_new_unterminated for hunk in hunks))


def _text_of_plus_lines(diff: str) -> str:
    added: list[str] = []
    lines, _ = split_lines(diff.rstrip("\n"))
    for number, line in enumerate(lines if diff else (), start=1):
        if not line.startswith("+"):
            raise PatchFailed(
                f"line {number} of the diff is {shown(line)}; in a new file every line starts "
                "with '+'"
            )
        added.append(line[1:])
    # A last '+' alone stands for the newline at the end, which every new file gets once.
    if added and added[-1] in ("", "\r"):
        added.pop()
    return _joined(added, is_terminated=True)


def _changed(lines: list[str], hunks: Sequence[Hunk]) -> Iterator[str]:
    places = Places(lines)
    done = 0
    for hunk_in_diff in hunks:
        start, hunk = places.find(hunk_in_diff, done)
        end = start + len(hunk.old)
        yield from lines[done:start]
        yield from _replaced(hunk, lines, start)
        done = end
    yield from lines[done:]


def _replaced(hunk: Hunk, lines: Sequence[str], start: int) -> Iterator[str]:
    """Yield the lines that replace the hunk. Kept lines come from the file, not from the diff."""
    has_returns = _has_returns(hunk, lines, start)
    index = start
    for mark, text in hunk.lines:
        if mark == "+":
            yield text if has_returns is None else _ended(text, has_returns)
            continue
        if mark == " ":
            yield lines[index]
        index += 1


def _has_returns(hunk: Hunk, lines: Sequence[str], start: int) -> bool | None:
    """Whether the file uses CR LF where the diff does not match it; `None` when both agree and
    added lines stay as they are.
    """
    old = hunk.old
    if not old:
        is_dos = bool(lines) and all(line.endswith("\r") for line in lines)
        return True if is_dos else None
    for offset, line in enumerate(old):
        in_file = lines[start + offset].endswith("\r")
        if in_file != line.endswith("\r"):
            return in_file
    return None


def _ended(text: str, has_return: bool) -> str:
    return text.removesuffix("\r") + ("\r" if has_return else "")


def _joined(lines: Sequence[str], is_terminated: bool) -> str:
    return "\n".join(lines) + ("\n" if lines and is_terminated else "")
