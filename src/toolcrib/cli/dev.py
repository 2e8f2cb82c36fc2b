"""`toolcrib dev`: serve the project of this folder while you work on it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from toolcrib.cli.console import Open
from toolcrib.cli.http_options import (
    ApproveByElicitation,
    ServerOptions,
    invite_to_console,
    serve_over_http,
    takes_access_options,
)
from toolcrib.cli.output import require_extra, show_note
from toolcrib.cli.runtime_options import RuntimeOptions, check_model, takes_runtime_options
from toolcrib.cli.serve import SERVED_OPTIONS

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http import HttpServer


@takes_runtime_options(*SERVED_OPTIONS)
@takes_access_options()
def dev(
    options: RuntimeOptions,
    server: ServerOptions,
    approve_by_elicitation: ApproveByElicitation = "role",
    open: Open = False,
) -> None:
    """Serve the project of this folder over HTTP and MCP, and reload what changes.

    A change of a tool, a policy or the project file takes effect at once; a fault is told, and
    what was in force stays. For other machines, and for good, use `toolcrib serve`.

    It prints a link that signs you in to the console, a page for the browser.

    Example: toolcrib dev --open

    Example: toolcrib dev --port 8421
    """
    require_extra("reload", "dev")
    if not options.has_tools:
        raise typer.BadParameter(
            "there are no tools: make a project with `toolcrib init FOLDER` and run it there, or "
            "name --host-tools-module MODULE"
        )
    check_model(options)
    serve_over_http(
        replace(options, reload=True),
        server,
        approve_by_elicitation,
        on_ready=lambda http, runtime: _invite(http, runtime, server, opens=open),
    )


def _invite(http: HttpServer, runtime: Runtime, server: ServerOptions, *, opens: bool) -> None:
    """Say what to do now."""
    url = http.url
    tools = runtime.registry.list_tools()
    token = f" --token-file {shlex.quote(str(server.token_file))}" if server.token_file else ""
    example = next((tool for tool in tools if tool.is_read_only), tools[0] if tools else None)
    if example is not None:
        words = [example.name, *sample_words(example.parameters)]
        command = f"toolcrib tools call {shlex.join(words)} --url {url}{token}"
        show_note(f"in another terminal:\n  {command}")
    show_note(f"for an MCP client: toolcrib install claude-code, or the address {url}/mcp")
    invite_to_console(http, server, opens=opens)


def sample_words(parameters: Mapping[str, Any]) -> list[str]:
    """Arguments for a first call, as `key=value`: the required ones, with values of the schema."""
    properties: Mapping[str, Any] = parameters.get("properties") or {}
    required: list[str] = parameters.get("required") or []
    return [f"{name}={sample(properties.get(name, {}))}" for name in required]


def sample(schema: Mapping[str, Any]) -> str:
    """A value that a schema may take, as text."""
    import json

    for values in (schema.get("enum"), schema.get("examples")):
        if values:
            return values[0] if isinstance(values[0], str) else json.dumps(values[0])
    match schema.get("type"):
        case "integer" | "number":
            return str(schema.get("minimum", 1))
        case "boolean":
            return "true"
        case "array":
            return "[]"
        case "object":
            return "{}"
        case _:
            return "something"
