"""`toolcrib servers`: the mounted MCP servers of a running server, and the pins of their tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.output import Exit, fail, show_json, show_note, show_text
from toolcrib.cli.runtime_options import run_hosted, takes_runtime_options
from toolcrib.cli.service import TokenFile, Url, chosen_url, open_service, plain
from toolcrib.cli.store_options import Json
from toolcrib.cli.table import Row, moment_text, show_table
from toolcrib.project.runtime import RuntimeOptions

if TYPE_CHECKING:
    from toolcrib.mcp_client.inspection import InspectedServer
    from toolcrib.mcp_client.server_history import ServerState
    from toolcrib.runtime.runtime import Runtime

app = typer.Typer(
    help="See the mounted MCP servers of a running server, and pin their tools.",
    no_args_is_help=True,
)

_COLOURS: dict[ServerState, str] = {
    "connected": "green",
    "connecting": "yellow",
    "disconnected": "red",
    "invalid": "red",
}


@app.command("list")
def list_command(url: Url = None, token_file: TokenFile = None, json: Json = False) -> None:
    """Print the mounted MCP servers: state, restarts, tools, and the last error.

    Example: toolcrib servers list --url http://127.0.0.1:8420
    """
    if chosen_url(url) is None:
        raise typer.BadParameter("servers are mounted where a server runs; name it: --url URL")
    with open_service(None, url, token_file) as service:
        servers = plain(service.list_servers())["servers"]
    if json:
        show_json(servers)
        return
    rows = [
        Row(
            (
                each["name"],
                each["state"],
                moment_text(each["since"]),
                str(each["restarts"]),
                str(len(each["tools"])),
                each["last_error"] or "-",
            ),
            _COLOURS[each["state"]],
        )
        for each in servers
    ]
    header = ("server", "state", "since", "restarts", "tools", "last error")
    show_table(header, rows, widest=(0, 0, 0, 0, 0, 0))
    for each in servers:
        _show_changes(each)


def _show_changes(server: dict[str, Any]) -> None:
    for change in server["changes"]:
        text = f"{server['name']}: {change['name']} was {change['kind']}"
        show_note(f"{text} {moment_text(change['at'])}", "yellow")


ServerNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="SERVER", help="Only these servers; otherwise all that have pins."),
]


@app.command()
@takes_runtime_options("host_tools")
def diff(options: RuntimeOptions, servers: ServerNames = None, json: Json = False) -> None:
    """Print how the tools of MCP servers differ from their pins: new, gone, or changed.

    The servers are started, and no tool is called. The status is 1 when something differs.

    Example: toolcrib servers diff --host-tools gateway.yaml
    """
    found = [each for each in _inspected(options, servers) if each.differences]
    if json:
        show_json([_as_json(each) for each in found])
    else:
        for each in found:
            _show_differences(each)
    if found:
        raise typer.Exit(Exit.FAILED)


@app.command()
@takes_runtime_options("host_tools")
def pin(
    options: RuntimeOptions,
    servers: ServerNames = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Take over what differs from the pins.")
    ] = False,
) -> None:
    """Write the tools of MCP servers, as they are declared now, to the file that `pins` names.

    A server without any pins is pinned at once. What differs from earlier pins is printed, and
    taken over with --accept only.

    Example: toolcrib servers pin --host-tools gateway.yaml
    """
    from toolcrib.mcp_client.pins import write_pins

    is_refused = False
    for each in _inspected(options, servers):
        if each.is_first or accept:
            write_pins(each.pins.file, {each.name: each.pins})
            show_note(f"{each.name}: {len(each.pins.tools)} tools are pinned in {each.pins.file}")
        elif each.differences:
            is_refused = True
            _show_differences(each)
    if is_refused:
        fail("the tools differ from their pins; take them over with: toolcrib servers pin --accept")


def _inspected(options: RuntimeOptions, names: list[str] | None) -> list[InspectedServer]:
    from toolcrib.errors import UsageError
    from toolcrib.mcp_client.inspection import inspected

    async def inspect(runtime: Runtime) -> list[InspectedServer]:
        return await inspected(runtime.config.mcp_servers, names)

    try:
        return run_hosted(options, inspect)
    except UsageError as error:
        fail(str(error))


def _show_differences(server: InspectedServer) -> None:
    for each in server.differences:
        show_text(f"{server.name}: {each.tool} is {each.kind}")
        for line in each.changes:
            show_text(f"  {line}")


def _as_json(server: InspectedServer) -> dict[str, Any]:
    return {
        "name": server.name,
        "differences": [
            {"tool": each.tool, "kind": each.kind, "changes": list(each.changes)}
            for each in server.differences
        ],
    }
