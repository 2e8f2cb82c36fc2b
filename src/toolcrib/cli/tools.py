"""`toolcrib tools`: see the tools of this machine or of a server, and call them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.approver import ApproveOption, approver_for
from toolcrib.cli.arguments import given_arguments
from toolcrib.cli.output import show, show_json, show_text
from toolcrib.cli.results import finish_call
from toolcrib.cli.runtime_options import (
    HostToolFiles,
    HostToolModules,
    KeepIn,
    Plugins,
    PolicyFile,
    RuntimeOptions,
)
from toolcrib.cli.service import ServiceConnection, TokenFile, Url, open_hosted_service
from toolcrib.cli.store_options import Json
from toolcrib.errors import Refused

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(help="See tools, and call them without a model.", no_args_is_help=True)

ToolName = Annotated[str, typer.Argument(metavar="TOOL", help="The tool, as listed.")]


@app.command("list")
def list_command(
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    category: Annotated[
        str | None, typer.Option("--category", metavar="NAME", help="One category only.")
    ] = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print the tools, and those that could not be had with the reason.

    Example: toolcrib tools list --host-tools host-tools.yaml
    """
    asked = RuntimeOptions(files=host_tools, modules=host_tools_module, plugins=plugins)
    with open_hosted_service(asked, url, token_file) as desk, _session(desk) as session_id:
        found = desk.ask("tools.list", {"session_id": session_id, "category": category})
    if json:
        show_json(found)
        return
    for tool in found["tools"]:
        marks = [name for name in ("requires_approval", "is_read_only") if tool[name]]
        first = tool["description"].split("\n")[0]
        show(" ".join([tool["name"], tool["version"], tool["place"], *marks, f"- {first}"]))
    for name, reason in found["unavailable"].items():
        show(f"{name} unavailable: {reason}", "yellow")


@app.command("show")
def show_command(
    tool: ToolName,
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print everything about one tool, with the schema of its arguments.

    Example: toolcrib tools show stock_level --host-tools host-tools.yaml
    """
    asked = RuntimeOptions(files=host_tools, modules=host_tools_module, plugins=plugins)
    with open_hosted_service(asked, url, token_file) as desk, _session(desk) as session_id:
        found = desk.ask("tools.info", {"session_id": session_id, "name": tool})
    if json:
        show_json(found)
        return
    parameters, description = found.pop("parameters"), found.pop("description")
    for name, value in found.items():
        if value not in (None, [], False):
            show(f"{name + ':':<18} {value}")
    show("description:")
    show_text(description)
    show("parameters:")
    show_json(parameters)


@app.command()
def call(
    tool: ToolName,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Arguments, read by the tool's schema."),
    ] = None,
    arguments: Annotated[
        str | None, typer.Option("--arguments", help="All arguments, as a JSON object.")
    ] = None,
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    store: KeepIn = None,
    policy: PolicyFile = None,
    approve: ApproveOption = "ask",
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="In this session; else in a new one."),
    ] = None,
    call_id: Annotated[
        str | None,
        typer.Option("--call-id", metavar="ID", help="Go on with a call that waits."),
    ] = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Call one tool, under policy and approval like any other call.

    What it gives goes to stdout. The exit status is 0 when it ran, 1 when it failed, 3 when it was
    denied, 4 while it waits.

    Example: toolcrib tools call stock_level part=bolts --host-tools host-tools.yaml
    """
    asked = RuntimeOptions(
        files=host_tools,
        modules=host_tools_module,
        plugins=plugins,
        store=store,
        policy=policy,
        approver=approver_for(approve),
    )
    with open_hosted_service(asked, url, token_file) as desk, _session(desk, session) as session_id:
        facts = desk.ask("tools.info", {"session_id": session_id, "name": tool})
        given = given_arguments(words or [], arguments, facts["parameters"])
        params: dict[str, Any] = {"session_id": session_id, "name": tool, "arguments": given}
        result = desk.ask("tools.call", {**params, "call_id": call_id})
    finish_call(result, session_id, _where(store, url), json=json)


@contextmanager
def _session(desk: ServiceConnection, session_id: str | None = None) -> Generator[str]:
    """A session to ask in. One that was made for the command is let go of; it stays in the store,
    where a call that waits can be gone on with.
    """
    if session_id is not None:
        desk.ask("session.resume", {"session_id": session_id})
        yield session_id
        return
    made: str = desk.ask("session.create", {"metadata": {"made_by": "toolcrib tools"}})[
        "session_id"
    ]
    try:
        yield made
    finally:
        with suppress(Refused):
            desk.ask("session.close", {"session_id": made})


def _where(store: Path | None, url: str | None) -> str | None:
    return f"--url {url}" if url else f"--store {store}" if store else None
