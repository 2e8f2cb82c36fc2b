"""All commands under one. A command is imported when it is named, so that each starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, ClassVar, Final, cast

import typer
from typer.core import TyperGroup

from toolcrib._version import __version__


LINE: Final = 200
"""More characters than the summary of any command has."""


class LazyGroup(TyperGroup):
    """A group whose commands are `MODULE:NAME`, of a function or of a `typer.Typer`."""

    places: ClassVar[Mapping[str, str]] = {}
    summaries: ClassVar[Mapping[str, str]] = {}
    """The first line of each command's help, so that the list of them imports none."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Only the names: among these Typer looks for what a mistyped command may have meant.
        self.commands = cast("Any", dict.fromkeys(self.places))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table."""
        return [*self.places]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported now; None when there is none."""
        place = self.places.get(cmd_name)
        if place is None:
            return None
        command = _command(place)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands. Only a command without a summary is imported for it."""
        rows = [(name, self._summary(ctx, name)) for name in self.places]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _summary(self, ctx: Any, name: str) -> str:
        return self.summaries.get(name) or self.get_command(ctx, name).get_short_help_str(LINE)


def _command(place: str) -> Any:
    module, _, name = place.partition(":")
    target = getattr(import_module(module), name)
    if isinstance(target, typer.Typer):
        # Plain help: rich takes longer to import than most commands run.
        target.rich_markup_mode = None
        return typer.main.get_group(target)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command()(target)
    return typer.main.get_command(alone)


COMMANDS: Final = {
    "init": "toolcrib.cli.init:init",
    "serve": "toolcrib.cli.serve:serve",
    "mcp": "toolcrib.cli.serve:mcp",
    "acp": "toolcrib.cli.serve:acp",
    "provider": "toolcrib.cli.provider:provider",
    "run": "toolcrib.cli.run:run",
    "tools": "toolcrib.cli.tools:app",
    "approvals": "toolcrib.cli.approvals:app",
    "grants": "toolcrib.cli.grants:app",
    "sessions": "toolcrib.cli.sessions:app",
    "tokens": "toolcrib.cli.tokens:app",
    "policy": "toolcrib.cli.policy:app",
    "audit": "toolcrib.cli.audit:app",
    "support": "toolcrib.cli.support:support",
    "doctor": "toolcrib.cli.doctor:doctor",
    "demo": "toolcrib.cli.demo:demo",
    "model": "toolcrib.cli.model:app",
}
"""Where each command is: a function, or a Typer with commands of its own."""

SUMMARIES: Final = {
    "init": "Write a small project that runs.",
    "serve": "Serve tools to clients, over HTTP or stdio.",
    "mcp": "Serve tools over MCP on stdin and stdout, until the client disconnects.",
    "acp": "Serve an editor that speaks the Agent Client Protocol, on stdin and stdout.",
    "provider": "Serve the Responses API with hosted tools that run on this machine.",
    "run": "Have a model answer with the host's tools: one prompt, or a chat.",
    "tools": "List tools, and call them without a model.",
    "approvals": "List approval requests, and decide them.",
    "grants": "List grants, and revoke them.",
    "sessions": "List sessions, and resume them.",
    "tokens": "Make, list, replace and revoke the tokens of a server.",
    "policy": "Check policy files and explain what they decide.",
    "audit": "Prove that ledgers are whole, and read them.",
    "support": "Print which kinds of tools, and which of their options, each provider has.",
    "doctor": "Check whether this machine has what the commands need.",
    "demo": "Play a whole session: web and file search, Python, an order that a person approves.",
    "model": "Fetch a model that runs in the process.",
}
"""What `toolcrib --help` says of each command: the first sentence of its own help."""


class _Commands(LazyGroup):
    places = COMMANDS
    summaries = SUMMARIES


app = typer.Typer(
    name="toolcrib",
    cls=_Commands,
    help="Look after the tools of LLM agents: who may run what, and what ran.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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
