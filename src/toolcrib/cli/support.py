"""`toolcrib support`: the features that each provider supports."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.output import fail, show, show_json
from toolcrib.cli.store_options import Json
from toolcrib.terminal_text import columns, padded, paint, terminal_width, wrap

if TYPE_CHECKING:
    from toolcrib.adapters.support import Cell

_COLOURS = {"yes": "green", "yes*": "yellow", "no": "red", "": ""}


def support(
    provider: Annotated[
        str | None, typer.Option("--provider", metavar="NAME", help="One provider only.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="NAME", help="One kind of tool only.")
    ] = None,
    json: Json = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--update", hidden=True, exists=True, dir_okay=False, help="A page to write it into."
        ),
    ] = None,
) -> None:
    """Print which kinds of tools, and which of their options, each provider has.

    With one provider or one kind, the limits and the reasons are printed too.

    Example: toolcrib support --provider anthropic
    """
    from toolcrib.adapters.support import MATRIX, PROVIDERS

    if page is not None:
        _update(page)
        return
    kinds = _chosen("--kind", kind, tuple(MATRIX))
    providers = _chosen("--provider", provider, PROVIDERS)
    if json:
        show_json([_as_json(*cell) for cell in _cells(kinds, providers)])
    elif provider is None and kind is None:
        _print_table()
    else:
        _print_reasons(kinds, providers)


def _chosen(option: str, wanted: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if wanted is None:
        return known
    if wanted not in known:
        raise typer.BadParameter(f"{option} {wanted!r} is unknown; known are {', '.join(known)}")
    return (wanted,)


def _cells(
    kinds: Sequence[str], providers: Sequence[str]
) -> Iterator[tuple[str, str | None, str, Cell]]:
    """Every cell of these rows and columns, under kind, option and provider."""
    from toolcrib.adapters.support import MATRIX

    for kind in kinds:
        for option in (None, *MATRIX[kind].options):
            for provider in providers:
                yield kind, option, provider, MATRIX[kind].cell(provider, option)


def _as_json(kind: str, option: str | None, provider: str, cell: Cell) -> dict[str, Any]:
    return {
        "kind": kind,
        "option": option,
        "provider": provider,
        "supported": cell.is_supported,
        "note": cell.note,
        "most": cell.most,
        "only": cell.only,
    }


def _print_reasons(kinds: Sequence[str], providers: Sequence[str]) -> None:
    from toolcrib.adapters.support import MATRIX

    for kind, option, provider, cell in _cells(kinds, providers):
        # Where there is no tool there is nothing to say about its options.
        if option is None or MATRIX[kind].cell(provider).is_supported:
            what = f"{kind} {option}" if option else kind
            show(f"{provider:<17} {what:<41} {cell.text()}", _COLOURS[_mark(cell)])


def _print_table() -> None:
    """A column for each provider; where that does not fit, a line for each option."""
    from toolcrib.adapters.support import MATRIX, PROVIDERS

    header = ("kind and option", *PROVIDERS)
    rows = [
        (f"  {option}" if option else kind, *_marks(kind, option))
        for kind in MATRIX
        for option in (None, *MATRIX[kind].options)
    ]
    widths = columns([header, *rows])
    is_terminal = sys.stdout.isatty()
    if is_terminal and sum(widths) + 2 * len(widths) > terminal_width(sys.stdout):
        _print_lines()
    else:
        for row in (header, *rows):
            cells = [padded(cell, width) for cell, width in zip(row, widths, strict=True)]
            is_heading = row is header or not row[0].startswith(" ")
            line = "  ".join(cells).rstrip()
            typer.echo(paint(line, "bold" if is_heading else None, sys.stdout))
    show("* within limits; --kind or --provider shows them")


def _marks(kind: str, option: str | None) -> list[str]:
    from toolcrib.adapters.support import MATRIX, PROVIDERS

    row = MATRIX[kind]
    return [
        "" if option and not row.cell(provider).is_supported else _mark(row.cell(provider, option))
        for provider in PROVIDERS
    ]


def _print_lines() -> None:
    """For each kind, and each option, who has it."""
    from toolcrib.adapters.support import MATRIX, PROVIDERS

    width = terminal_width(sys.stdout)
    for kind, row in MATRIX.items():
        for option in (None, *row.options):
            marks = zip(PROVIDERS, _marks(kind, option), strict=True)
            having = [f"{name}{mark[3:]}" for name, mark in marks if mark.startswith("yes")]
            name = f"  {option}:" if option else f"{kind}:"
            line = f"{name} {', '.join(having) or 'nobody'}"
            for piece in wrap(line, width, hanging=" " * 4):
                typer.echo(paint(piece, None if option else "bold", sys.stdout))


def _mark(cell: Cell) -> str:
    word, _, limits = cell.text().partition(": ")
    return "yes*" if word == "yes" and limits else word


def _update(page: Path) -> None:
    from toolcrib.adapters.support.page import updated

    try:
        text = updated(page.read_text("utf-8"))
    except ValueError as error:
        fail(f"{page}: {error}")
    page.write_text(text, "utf-8")
