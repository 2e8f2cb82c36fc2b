"""All command groups under one command."""

from __future__ import annotations

from typing import Annotated

import typer

from toolcrib._version import __version__
from toolcrib.cli import approvals, audit, grants, policy, serve, sessions, support

app = typer.Typer(
    name="toolcrib",
    help="Look after the tools of LLM agents: who may run what, and what ran.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(policy.app, name="policy")
app.add_typer(approvals.app, name="approvals")
app.add_typer(grants.app, name="grants")
app.add_typer(sessions.app, name="sessions")
app.add_typer(audit.app, name="audit")
app.command("serve")(serve.serve)
app.command("support")(support.support)


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
