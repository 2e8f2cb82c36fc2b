"""All commands under one."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from toolcrib._version import __version__
from toolcrib.cli.lazy import LazyGroup

COMMANDS: Final = {
    "init": "toolcrib.cli.init:init",
    "serve": "toolcrib.cli.serve:serve",
    "mcp": "toolcrib.cli.mcp:mcp",
    "acp": "toolcrib.cli.acp:acp",
    "provider": "toolcrib.cli.provider:provider",
    "run": "toolcrib.cli.run:run",
    "tools": "toolcrib.cli.tools:app",
    "approvals": "toolcrib.cli.approvals:app",
    "grants": "toolcrib.cli.grants:app",
    "sessions": "toolcrib.cli.sessions:app",
    "policy": "toolcrib.cli.policy:app",
    "audit": "toolcrib.cli.audit:app",
    "support": "toolcrib.cli.support:support",
    "doctor": "toolcrib.cli.doctor:doctor",
    "demo": "toolcrib.cli.demo:demo",
    "model": "toolcrib.cli.model:app",
}
"""Where each command is: a function, or a Typer with commands of its own."""


class _Commands(LazyGroup):
    places = COMMANDS


app = typer.Typer(
    name="toolcrib",
    cls=_Commands,
    help="Look after the tools of LLM agents: who may run what, and what ran.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"toolcrib {__version__}")
        raise typer.Exit


@app.callback()
def toolcrib(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Look after the tools of LLM agents: who may run what, and what ran."""
