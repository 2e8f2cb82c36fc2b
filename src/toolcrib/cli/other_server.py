"""`--mcp` and `--mcp-url`: the tools of another MCP server, without a file that names it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from toolcrib.cli.project_options import is_on_command_line
from toolcrib.cli.runtime_options import TOOL_OPTIONS, RuntimeOptions

Mcp = Annotated[
    str | None,
    typer.Option(
        "--mcp", metavar="COMMAND", help="The tools of the MCP server that COMMAND starts."
    ),
]
McpUrl = Annotated[
    str | None,
    typer.Option("--mcp-url", metavar="URL", help="The tools of the MCP server at URL."),
]
_SERVER: Final = "server"
"""The name of a server that only the command line names."""


def with_server(options: RuntimeOptions, command: str | None, url: str | None) -> RuntimeOptions:
    """The options with the server for their only tools, if one is named. Then nothing of the
    project of this folder applies: its policy is about other tools.
    """
    from toolcrib.project.project import Project

    if command is None and url is None:
        return options
    if command is not None and url is not None:
        raise typer.BadParameter("give --mcp or --mcp-url, not both")
    if is_on_command_line(*TOOL_OPTIONS, "url"):
        raise typer.BadParameter("--mcp and --mcp-url take no other tools and no server")
    entry: dict[str, Any] = {"url": url, "prefix": ""} if command is None else _started(command)
    project = Project(file=Path.cwd() / "toolcrib.yaml", mcp_servers={_SERVER: entry})
    return RuntimeOptions(
        project=project,
        policy=options.policy if is_on_command_line("policy") else None,
        store=options.store if is_on_command_line("store") else None,
        expect_tool=options.expect_tool if is_on_command_line("expect_tool") else None,
    )


def _started(command: str) -> dict[str, Any]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise typer.BadParameter(f"--mcp cannot be split into words: {error}") from None
    if not words:
        raise typer.BadParameter("--mcp is empty; write the command that starts the server")
    return {"command": words[0], "args": words[1:], "prefix": ""}
