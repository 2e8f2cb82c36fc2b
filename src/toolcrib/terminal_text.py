"""Text for a terminal: nothing that it would obey, lines that break at words, and colour."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TextIO

DEFAULT_WIDTH: Final = 80
_UNSHOWABLE: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_WITH_SPACE: Final = re.compile(r"\s*\S+")
_SHELL_WORD: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")
_CODES: Final[Mapping[str, str]] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
STATUS_STYLES: Final[Mapping[str, str]] = {
    "ok": "green",
    "completed": "green",
    "approved": "green",
    "answered": "cyan",
    "waiting": "yellow",
    "pending": "yellow",
    "denied": "bold yellow",
    "expired": "yellow",
    "stopped": "yellow",
    "failed": "red",
}
"""The colour of each word for how a call or a request stands. The word alone says it, too."""


def end_word(*, is_success: bool, failure_kind: str | None) -> str:
    """How a call ended, in the one word that people are shown for it."""
    if is_success:
        return "ok"
    match failure_kind:
        case "denied" | "not_permitted":
            return "denied"
        case "expired":
            return "expired"
        case "cancelled":
            return "stopped"
        case _:
            return "failed"


def showable(text: str) -> str:
    """Return `text` with every character escaped that a terminal would obey, hide or reorder."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escaped(character) if unicodedata.category(character) in _UNSHOWABLE else character
        for character in text
    )


def _escaped(character: str) -> str:
    # As JSON writes it, so that JSON made safe to print is still the same JSON.
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def terminal_width(stream: TextIO) -> int:
    """The number of columns of the terminal behind `stream`; COLUMNS says otherwise."""
    if (written := os.environ.get("COLUMNS", "")).isdecimal() and int(written) > 0:
        return int(written)
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


def columns_of(text: str) -> int:
    """How many columns `text` takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_columns_of_character, text))


def _columns_of_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrap(text: str, width: int, *, hanging: str = "", is_exact: bool = False) -> list[str]:
    """Break one line at spaces. Each further line starts with the first one's indentation and
    `hanging`. A word that is wider than a line stays whole, so that a path can be copied. With
    `is_exact` a break takes the place of one space, and the others are kept.
    """
    if columns_of(text) <= width:
        return [text]
    indent = text[: len(text) - len(text.lstrip(" "))]
    lines: list[str] = []
    line = indent
    for piece in _WITH_SPACE.findall(text[len(indent) :]) or [""]:
        if line.strip() and columns_of(line + piece) > width:
            lines.append(line)
            line = f"{indent}{hanging}{piece[1:] if is_exact else piece.lstrip()}"
        else:
            line += piece
    return [*lines, line]


def wrap_items(items: Iterable[str], width: int) -> list[str]:
    """Items with commas between them, broken between items only."""
    lines = [""]
    for item in items:
        longer = f"{lines[-1]}, {item}" if lines[-1] else item
        # The comma after an item that is not the last needs a column, too.
        if lines[-1] and columns_of(longer) >= width:
            lines[-1] += ","
            lines.append(item)
        else:
            lines[-1] = longer
    return lines


def wrap_lines(text: str, width: int, *, hanging: str = "") -> Iterator[str]:
    """Break each line of `text`. Lines that start with two spaces and a program's name are
    commands to copy, and are broken as a shell allows.
    """
    for line in text.split("\n"):
        if line.lstrip().startswith("toolcrib ") and line.startswith("  "):
            yield from command_lines(line.strip(), width, indent=line[: -len(line.lstrip())])
        else:
            yield from wrap(line, width, hanging=hanging)


def command_lines(command: str, width: int, *, indent: str = "  ") -> list[str]:
    r"""A command to copy, broken between its words with the shell's ` \` where it is too long."""
    if columns_of(indent + command) <= width:
        return [indent + command]
    lines: list[str] = []
    line = ""
    for word in _SHELL_WORD.findall(command):
        longer = f"{line} {word}" if line else f"{indent}{word}"
        if line and columns_of(longer) > width - len(" \\"):
            lines.append(f"{line} \\")
            longer = f"{indent}  {word}"
        line = longer
    return [*lines, line]


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns, with `…` in place of what is left out."""
    if columns_of(text) <= width:
        return text
    kept, used = "", 1
    for character in text:
        used += _columns_of_character(character)
        if used > width:
            break
        kept += character
    return f"{kept.rstrip()}…"


def cut_words(text: str, width: int) -> str:
    """`text` in at most `width` columns, cut after a word."""
    if columns_of(text) <= width:
        return text
    shorter = cut(text, width).removesuffix("…")
    if not text[len(shorter) :].startswith(" "):
        shorter = shorter.rpartition(" ")[0] or shorter
    return f"{shorter.rstrip(' ,;:.')}…"


def columns(rows: Iterable[tuple[str, ...]]) -> list[int]:
    """The width that each column of a table needs."""
    return [max(map(columns_of, cells)) for cells in zip(*rows, strict=True)]


def padded(text: str, width: int) -> str:
    """`text` with spaces after it, up to `width` columns."""
    return text + " " * (width - columns_of(text))


def has_colour(stream: TextIO) -> bool:
    """Whether `stream` is a terminal whose user wants colour."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except ValueError:
        return False


def paint(text: str, style: str | None, stream: TextIO) -> str:
    """`text` in a style such as `bold red`, if `stream` takes colour."""
    if not style or not has_colour(stream):
        return text
    codes = ";".join(_CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"
