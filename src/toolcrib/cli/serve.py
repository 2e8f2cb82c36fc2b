"""The commands that serve a runtime with the host's tools.

`toolcrib serve` waits for clients to connect, or for lines on stdin; `toolcrib mcp` serves the MCP
client that started it, and `toolcrib acp` the editor that did.
"""

from __future__ import annotations

from typing import Annotated

import typer

from toolcrib.cli.http_options import (
    ApproveByElicitation,
    ServerOptions,
    serve_over_http,
    takes_access_options,
)
from toolcrib.cli.output import require_extra
from toolcrib.cli.runtime_options import (
    ANCHOR_OPTIONS,
    CALLER_OPTIONS,
    HOST_OPTIONS,
    RuntimeOptions,
    run_hosted,
    takes_runtime_options,
)
from toolcrib.transports.mcp.options import McpOptions


@takes_runtime_options(
    *HOST_OPTIONS,
    "adapter",
    "instructions",
    "allow_egress",
    *CALLER_OPTIONS,
    *ANCHOR_OPTIONS,
    "reload",
    "bind_to",
    "approve_own_calls",
)
@takes_access_options()
def serve(
    options: RuntimeOptions,
    server: ServerOptions,
    http: Annotated[
        bool, typer.Option("--http", help="REST, server-sent events and WebSocket.")
    ] = False,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="JSON-RPC lines on stdin and stdout.")
    ] = False,
    approve_by_elicitation: ApproveByElicitation = "role",
) -> None:
    """Serve tools to clients, over HTTP or stdio.

    It runs until SIGINT or SIGTERM; over stdio also until the client closes its input.

    The owner's token is not printed: it is in a file that only you can read, or the one that you
    set in TOOLCRIB_OWNER_TOKEN. Everybody else gets a token with `toolcrib tokens create`, or signs
    in with --oidc-issuer. On an address that other machines can reach, one of these is needed.

    Example: toolcrib serve --http --host-tools host-tools.yaml --store crib.sqlite3 --reload

    Example: toolcrib serve --http --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    """
    if http == stdio:
        raise typer.BadParameter("choose a transport: --http or --stdio")
    if http:
        serve_over_http(options, server, approve_by_elicitation)
    else:
        _serve_stdio(options)


def _serve_stdio(options: RuntimeOptions) -> None:
    from toolcrib.transports.pipes import claim_pipes
    from toolcrib.transports.stdio import serve_stdio

    pipes = claim_pipes()
    run_hosted(options, lambda runtime: serve_stdio(runtime, pipes))


@takes_runtime_options(*HOST_OPTIONS, *CALLER_OPTIONS, "reload", "bind_to", "approve_own_calls")
def mcp(
    options: RuntimeOptions,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="NAME", help="Work in this session of the store."),
    ] = None,
    approve_by_elicitation: ApproveByElicitation = "role",
) -> None:
    """Serve tools over MCP on stdin and stdout, until the client disconnects.

    Example: toolcrib mcp --host-tools tools.yaml --store crib.sqlite3
    """
    require_extra("mcp", "mcp")
    from toolcrib.transports.mcp.server import McpServer
    from toolcrib.transports.pipes import claim_pipes

    pipes = claim_pipes()
    mcp_options = McpOptions(session=session, approve_by_elicitation=approve_by_elicitation)
    run_hosted(options, lambda runtime: McpServer(runtime, mcp_options).serve_stdio(pipes))


@takes_runtime_options(*HOST_OPTIONS, "adapter", *CALLER_OPTIONS, "reload", "bind_to")
def acp(options: RuntimeOptions) -> None:
    """Serve an editor that speaks the Agent Client Protocol, on stdin and stdout.

    Prompts need --adapter. With --store, sessions can be loaded after a restart.

    Example: toolcrib acp --host-tools tools.yaml --adapter mymodel:adapter --store crib.sqlite3
    """
    require_extra("acp", "acp")
    from toolcrib.transports.pipes import claim_pipes

    pipes = claim_pipes()
    from toolcrib.transports.acp.server import serve_acp

    run_hosted(options, lambda runtime: serve_acp(runtime, pipes))
