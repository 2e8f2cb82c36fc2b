"""Data goes to stdout, words to stderr; colour only where a person sees it and wants it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from enum import IntEnum
from typing import NoReturn, TextIO

import typer

from toolcrib.approval.panel import showable


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    """Done."""
    FAILED = 1
    """Not done, or done and found wanting; stderr says why."""
    USAGE = 2
    """The command was wrongly called; nothing was done."""
    DENIED = 3
    """A policy or a person said no; the tool did not run."""
    WAITING = 4
    """It waits for a decision; stderr says on what, and how to go on."""
    INTERRUPTED = 130
    """Stopped from the keyboard."""


def show(text: str, style: str | None = None) -> None:
    """Print one line of the answer."""
    _print(text, style, is_error=False)


def show_text(text: str) -> None:
    """Print text of several lines. Whoever wrote it cannot steer the terminal."""
    for line in text.split("\n"):
        show(line)


def stream(text: str, out: TextIO | None = None) -> None:
    """Print a piece of text at once, without ending the line."""
    pieces = (each if each in "\n\t" else showable(each) for each in text)
    typer.echo("".join(pieces), file=out, nl=False)


@contextmanager
def redirected_stdout() -> Generator[TextIO]:
    """Stdout for answers alone: what modules and tools of the host print meanwhile goes to
    stderr.
    """
    out = sys.stdout
    with redirect_stdout(sys.stderr):
        yield out


def show_json(value: object) -> None:
    """Print the answer as JSON, never coloured and never wrapped."""
    from pydantic_core import to_json

    text = to_json(value, indent=2, inf_nan_mode="strings").decode()
    typer.echo("\n".join(showable(line) for line in text.split("\n")))


def show_json_line(value: object) -> None:
    """Print one of many answers as JSON on a line of its own, at once."""
    from pydantic_core import to_json

    typer.echo(showable(to_json(value, inf_nan_mode="strings").decode()))


def show_note(text: str, style: str | None = None) -> None:
    """Say something to the person, beside the answer."""
    for line in text.split("\n"):
        _print(line, style, is_error=True)


def fail(text: str, status: Exit = Exit.FAILED) -> NoReturn:
    """Say what went wrong and exit."""
    show_note(text, "red")
    raise typer.Exit(status)


def _print(text: str, style: str | None, *, is_error: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    # Text, not markup: file names and rules may hold brackets, and worse.
    console = Console(stderr=is_error, highlight=False, soft_wrap=True)
    console.print(Text(showable(text), style=style or ""))
