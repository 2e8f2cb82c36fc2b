"""The matrix as Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolcrib.adapters.support.matrix import MATRIX
from toolcrib.adapters.support.table import PROVIDERS, Cell, KindSupport

BEGIN: Final = "<!-- support matrix: begin -->"
END: Final = "<!-- support matrix: end -->"


def markdown() -> str:
    """A table for each kind, with its limits and reasons as numbered notes."""
    return "\n\n".join(_section(name, kind) for name, kind in MATRIX.items())


def updated(page: str) -> str:
    """A page with the current matrix between its two marks. Raises ValueError without them."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n\n{markdown()}\n\n{END}{tail}"


def _section(name: str, kind: KindSupport) -> str:
    notes: dict[str, int] = {}
    lines = [f"### {name}", "", _line("", PROVIDERS), _line("---", ["---"] * len(PROVIDERS))]
    lines += [_line(label, cells) for label, cells in _rows(kind, notes)]
    if notes:
        lines += ["", *(f"{number}. {note}" for note, number in notes.items())]
    return "\n".join(lines)


def _rows(kind: KindSupport, notes: dict[str, int]) -> Iterator[tuple[str, list[str]]]:
    yield "**the tool**", [_mark(kind.cell(name), notes) for name in PROVIDERS]
    for option in kind.options:
        # A provider without the tool has empty cells for its options.
        yield (
            f"`{option}`",
            [
                _mark(kind.cell(name, option), notes) if kind.cell(name).is_supported else ""
                for name in PROVIDERS
            ],
        )


def _mark(cell: Cell, notes: dict[str, int]) -> str:
    word, _, note = cell.text().partition(": ")
    if not note:
        return word
    return f"{word} ({notes.setdefault(note, len(notes) + 1)})"


def _line(label: str, cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join([label, *cells])} |"
