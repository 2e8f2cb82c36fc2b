"""All commands under one. A command is imported when it is named, so that each starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, NoReturn, cast

import typer

from toolcrib._version import __version__
from toolcrib.cli.help import HelpCommand, HelpGroup, group_of


class LazyGroup(HelpGroup):
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

    def summary(self, ctx: Any, name: str) -> str | None:
        """From the table, so that the list of all commands imports none of them."""
        return self.summaries.get(name) or super().summary(ctx, name)


def _command(place: str) -> Any:
    module, _, name = place.partition(":")
    command = getattr(import_module(module), name)
    if isinstance(command, typer.Typer):
        return group_of(command)
    alone = typer.Typer(add_completion=False)
    alone.command(cls=HelpCommand)(command)
    return typer.main.get_command(alone)


COMMANDS: Final = {
    "init": "toolcrib.cli.init:init",
    "dev": "toolcrib.cli.dev:dev",
    "inspect": "toolcrib.cli.inspect:inspect",
    "install": "toolcrib.cli.install:install",
    "serve": "toolcrib.cli.serve:serve",
    "worker": "toolcrib.cli.worker:worker",
    "console": "toolcrib.cli.console:console",
    "mcp": "toolcrib.cli.serve:mcp",
    "acp": "toolcrib.cli.serve:acp",
    "provider": "toolcrib.cli.provider:provider",
    "run": "toolcrib.cli.run:run",
    "tools": "toolcrib.cli.tools:app",
    "approvals": "toolcrib.cli.approvals:app",
    "questions": "toolcrib.cli.questions:app",
    "grants": "toolcrib.cli.grants:app",
    "sessions": "toolcrib.cli.sessions:app",
    "tokens": "toolcrib.cli.tokens:app",
    "policy": "toolcrib.cli.policy:app",
    "servers": "toolcrib.cli.servers:app",
    "gateway": "toolcrib.cli.gateway:app",
    "config": "toolcrib.cli.config:app",
    "calls": "toolcrib.cli.calls:query",
    "audit": "toolcrib.cli.audit:app",
    "notifications": "toolcrib.cli.notifications:app",
    "store": "toolcrib.cli.store:app",
    "support": "toolcrib.cli.support:support",
    "doctor": "toolcrib.cli.doctor:doctor",
    "demo": "toolcrib.cli.demo:demo",
    "model": "toolcrib.cli.model:app",
}
"""Where each command is: a function, or a Typer with commands of its own."""

SUMMARIES: Final = {
    "init": "Write a small project that runs: two tools, a policy in force, and a test.",
    "dev": "Serve the project of this folder over HTTP and MCP, and reload what changes.",
    "inspect": "Try tools at the terminal, with a form for their arguments.",
    "install": "Let an MCP client use the tools of this project.",
    "serve": "Serve tools to clients, over HTTP or stdio.",
    "worker": "Advance the turns of a store that replicas share, until SIGINT or SIGTERM.",
    "console": "Print a link that signs you in to the console of a running server, once.",
    "mcp": "Serve tools over MCP on stdin and stdout, until the client disconnects.",
    "acp": "Serve an editor that speaks the Agent Client Protocol, on stdin and stdout.",
    "provider": "Serve the Responses API with hosted tools that run on this machine.",
    "run": "Have a model answer with the host's tools: one prompt, or a chat.",
    "tools": "List tools, and call them without a model.",
    "approvals": "List approval requests, and decide them.",
    "questions": "List questions of running calls, and answer them.",
    "grants": "List grants, and revoke them.",
    "sessions": "List sessions, and resume them.",
    "tokens": "Make, list, replace and revoke the tokens of a server.",
    "policy": "Check policy files, explain what they decide, and try drafts.",
    "servers": "See the mounted MCP servers of a running server.",
    "gateway": "Sign in to mounted MCP servers, sign out, and see who has.",
    "config": "See and check what toolcrib.yaml and the flags configure.",
    "calls": "Print the calls of all sessions that pass every filter, the newest first.",
    "audit": "List calls and their cost, and prove that ledgers are whole.",
    "notifications": "Try the webhooks that hear of waiting calls.",
    "store": "Back up, restore, upgrade and prune a store.",
    "support": "Print which kinds of tools, and which of their options, each provider has.",
    "doctor": "Check whether this machine has what the commands need.",
    "demo": "Play a whole session: web and file search, Python, an order that a person approves.",
    "model": "Fetch a model that runs in the process.",
}
"""What `toolcrib --help` says of each command: the first sentence of its own help."""


class _Commands(LazyGroup):
    places = COMMANDS
    summaries = SUMMARIES

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A fault of the program is one sentence; its traceback is for --debug."""
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, EOFError):
            # Typer ends the command: a pipe that was closed, an input that ended.
            raise
        except Exception as error:
            if type(error).__module__.partition(".")[0] in ("click", "typer"):
                raise
            _end_with(error)


def _end_with(error: Exception) -> NoReturn:
    from toolcrib.cli.debug import HINT, is_debug
    from toolcrib.cli.output import fail

    hint = "" if is_debug() else f"; {HINT}"
    fail(f"unexpected {type(error).__name__}: {error}{hint}")


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
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            envvar="TOOLCRIB_DEBUG",
            help="Show tracebacks, also those of tools that run in this process.",
        ),
    ] = False,
    project: Annotated[
        Path | None,
        typer.Option(
            "--project",
            metavar="FILE",
            envvar="TOOLCRIB_PROJECT",
            help="The project file; else toolcrib.yaml of this folder or of one above.",
        ),
    ] = None,
    no_project: Annotated[bool, typer.Option("--no-project", help="Use no project file.")] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a key of the project file for this command; may be repeated.",
        ),
    ] = None,
) -> None:
    """Look after the tools of LLM agents: who may run what, and what ran."""
    from toolcrib.cli.project_options import ProjectChoice, begin

    begin(ctx, ProjectChoice(project, no_project, changes or ()))
    if debug:
        from toolcrib.cli.debug import debug_output

        ctx.with_resource(debug_output())
