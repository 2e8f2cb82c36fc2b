"""The matrix as Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolcrib.adapters.support.cell import Cell, Kind
from toolcrib.adapters.support.matrix import MATRIX, PROVIDERS

BEGIN: Final = "<!-- support matrix: begin -->"
END: Final = "<!-- support matrix: end -->"


def markdown() -> str:
    """A table for each kind; below it the limits and the reasons, by number."""
    return "\n\n".join(_section(name, kind) for name, kind in MATRIX.items())


def updated(page: str) -> str:
    """A page with the matrix of today between its two marks. Raises ValueError without them."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n\n{markdown()}\n\n{END}{tail}"


def _section(name: str, kind: Kind) -> str:
    notes: dict[str, int] = {}
    lines = [f"### {name}", "", _line("", PROVIDERS), _line("---", ["---"] * len(PROVIDERS))]
    lines += [_line(label, cells) for label, cells in _rows(kind, notes)]
    if notes:
        lines += ["", *(f"{number}. {note}" for note, number in notes.items())]
    return "\n".join(lines)


def _rows(kind: Kind, notes: dict[str, int]) -> Iterator[tuple[str, list[str]]]:
    yield "**the tool**", [_mark(kind.cell(each), notes) for each in PROVIDERS]
    for option in kind.options:
        # Where there is no tool there is nothing to say about its options.
        yield (
            f"`{option}`",
            [
                _mark(kind.cell(each, option), notes) if kind.cell(each).is_supported else ""
                for each in PROVIDERS
            ],
        )


def _mark(cell: Cell, notes: dict[str, int]) -> str:
    word, _, note = cell.text().partition(": ")
    if not note:
        return word
    return f"{word} ({notes.setdefault(note, len(notes) + 1)})"


def _line(label: str, cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join([label, *cells])} |"
