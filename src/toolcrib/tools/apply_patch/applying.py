"""Applies a diff of one file to its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolcrib.errors import PatchFailed
from toolcrib.tools.apply_patch.hunks import Hunk, read_hunks, shown, split_lines
from toolcrib.tools.apply_patch.placing import Places


def apply_diff(text: str, diff: str) -> str:
    """`text` with the diff applied, all of it or none. Raises `PatchFailed`.

    Line ends stay as they are in the file; lines added to a file that uses CR LF get it too.
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
    """The text of the file that the diff creates. Raises `PatchFailed`."""
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
    for found in hunks:
        start, hunk = places.find(found, done)
        end = start + len(hunk.old)
        yield from lines[done:start]
        yield from _replaced(hunk, lines, start)
        done = end
    yield from lines[done:]


def _replaced(hunk: Hunk, lines: Sequence[str], start: int) -> Iterator[str]:
    """The lines in the hunk's place. Those it keeps are taken from the file, not from the diff."""
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
    """Whether the file ends its lines with CR LF, where the diff differs; None when they agree
    and added lines can be taken as they are.
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
