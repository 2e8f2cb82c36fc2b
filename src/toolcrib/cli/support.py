"""`toolcrib support`: the features that each provider supports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.output import fail, show, show_json
from toolcrib.cli.store_options import Json

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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from toolcrib.adapters.support import MATRIX, PROVIDERS

    table = Table("kind and option", *PROVIDERS, header_style="bold")
    for kind, row in MATRIX.items():
        table.add_section()
        for option in (None, *row.options):
            marks = [
                ""
                if option and not row.cell(provider).is_supported
                else _mark(row.cell(provider, option))
                for provider in PROVIDERS
            ]
            name = Text(f"  {option}" if option else kind, style="" if option else "bold")
            table.add_row(name, *(Text(mark, style=_COLOURS[mark]) for mark in marks))
    # A table that is folded to the width of a pipe could not be read.
    Console(width=None if Console().is_terminal else 200).print(table)
    show("* within limits; --kind or --provider shows them")


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
