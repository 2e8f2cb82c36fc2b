"""Data goes to stdout, words to stderr; colour only where a person sees it and wants it."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from toolcrib.approval.panel import showable


def show(text: str, style: str | None = None) -> None:
    """Print one line of the answer."""
    _print(Console(highlight=False, soft_wrap=True), text, style)


def show_json(value: object) -> None:
    """Print the answer as JSON, never coloured and never wrapped."""
    from pydantic_core import to_json

    typer.echo(to_json(value, indent=2).decode())


def note(text: str, style: str | None = None) -> None:
    """Say something to the person, beside the answer."""
    _print(Console(stderr=True, highlight=False, soft_wrap=True), text, style)


def fail(text: str) -> NoReturn:
    """Say what went wrong and exit with status 1."""
    note(text, "red")
    raise typer.Exit(1)


def _print(console: Console, text: str, style: str | None) -> None:
    # Text, not markup: file names and rules may hold brackets, and worse.
    console.print(Text(showable(text), style=style or ""))
