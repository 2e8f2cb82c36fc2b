"""`toolcrib servers`: the MCP servers that a running server has mounted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from toolcrib.cli.output import show_json, show_note
from toolcrib.cli.service import TokenFile, Url, chosen_url, open_service, plain
from toolcrib.cli.store_options import Json
from toolcrib.cli.table import Row, moment_text, show_table

if TYPE_CHECKING:
    from toolcrib.mcp_client.server_history import ServerState

app = typer.Typer(help="See the mounted MCP servers of a running server.", no_args_is_help=True)

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
