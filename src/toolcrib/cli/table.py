"""Lists of commands: a table that fits the terminal, or one record a line for other programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import typer

from toolcrib.cli.store_options import time_text
from toolcrib.terminal_text import (
    columns,
    columns_of,
    cut,
    cut_words,
    padded,
    paint,
    showable,
    terminal_width,
    wrap,
)

_SPACE: Final = "  "
_LEAST: Final = 24
"""With fewer columns left on a line, the last cell goes below it."""
_NARROWEST: Final = 8
"""What a column that may be cut keeps."""


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one record, and the style of its line."""

    cells: tuple[str, ...]
    style: str | None = None


def show_table(header: Sequence[str], rows: Sequence[Row], *, widest: Sequence[int]) -> None:
    """Print rows as a table. `widest` is how wide each column may be; 0 is as wide as it needs, for
    what people copy. The last column has the rest of the line, or a line below where too little is
    left.

    In a pipe each row is a line of its own, with tabs between the cells, and nothing is cut.
    """
    safe = [Row(tuple(map(showable, row.cells)), row.style) for row in rows]
    if not sys.stdout.isatty():
        for row in safe:
            typer.echo("\t".join(row.cells))
        return
    if not safe:
        return
    cells = [tuple(header), *(row.cells for row in safe)]
    room = terminal_width(sys.stdout)
    widths = _fitted(columns(cells), widest, room)
    styles = ["bold", *(row.style for row in safe)]
    for row, style in zip(cells, styles, strict=True):
        for line in _lines(row, widths, room):
            typer.echo(paint(line, style, sys.stdout))


def _fitted(needed: Sequence[int], widest: Sequence[int], room: int) -> list[int]:
    """The width of each column: what it needs and may take. Columns that may be cut give way to
    the others, the widest first, where all but the last do not fit on a line.
    """
    widths = [min(need, most) if most else need for need, most in zip(needed, widest, strict=True)]
    over = sum(widths[:-1]) + len(_SPACE) * (len(widths) - 2) - room
    bounded = [at for at, most in enumerate(widest[:-1]) if most]
    while over > 0 and (cuttable := [at for at in bounded if widths[at] > _NARROWEST]):
        widths[max(cuttable, key=lambda at: widths[at])] -= 1
        over -= 1
    return widths


def _lines(cells: Sequence[str], widths: Sequence[int], room: int) -> list[str]:
    """One row: on one line, or with its last cell below."""
    *fixed, last = cells
    line = _SPACE.join(
        padded(cut(cell, width), width) for cell, width in zip(fixed, widths, strict=False)
    )
    left = room - columns_of(line) - len(_SPACE)
    if left >= min(_LEAST, widths[-1]):
        return [f"{line}{_SPACE}{cut_words(last, left)}".rstrip()]
    below = [f"{_SPACE}{cut_words(last, room - len(_SPACE))}"] if last else []
    return [cut(line.rstrip(), room), *below]


def show_facts(facts: Sequence[tuple[str, str]], *, room: int | None = None) -> None:
    """Print names with their values beside them; a long value goes on beneath itself."""
    space = room or max((len(name) for name, _ in facts), default=0) + 2
    width = terminal_width(sys.stdout) if sys.stdout.isatty() else sys.maxsize
    for name, value in facts:
        line = showable(f"{name + ':':<{space}}{value}")
        typer.echo("\n".join(wrap(line, width, hanging=" " * space)))


def moment_text(at: float) -> str:
    """A time in a table: how long ago or in how long, which a person reads at a glance; in a pipe
    the time itself.
    """
    if not sys.stdout.isatty():
        return time_text(at)
    seconds = at - time.time()
    sizes = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
    size, unit = next((each for each in sizes if abs(seconds) >= each[0]), (1, "s"))
    length = f"{abs(seconds) / size:.0f}{unit}"
    return f"in {length}" if seconds > 0 else f"{length} ago"
