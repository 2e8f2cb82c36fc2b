"""`toolcrib serve`: a runtime with the host's tools, for clients to connect to."""

from __future__ import annotations

from typing import Annotated

import typer

from toolcrib.cli.http_options import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    AllowHost,
    AllowOrigin,
    ApproveByElicitation,
    Host,
    HttpOptions,
    Port,
    ServerTokens,
    serve_over_http,
)
from toolcrib.cli.runtime_options import (
    HOST_OPTIONS,
    RuntimeOptions,
    run_hosted,
    takes_runtime_options,
)


@takes_runtime_options(*HOST_OPTIONS, "adapter", "instructions", "reload")
def serve(
    options: RuntimeOptions,
    http: Annotated[
        bool, typer.Option("--http", help="REST, server-sent events and WebSocket.")
    ] = False,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="JSON-RPC lines on stdin and stdout.")
    ] = False,
    host: Host = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    token_file: ServerTokens = None,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    approve_by_elicitation: ApproveByElicitation = "scope",
) -> None:
    """Serve tools to clients, over HTTP or stdio.

    It runs until SIGINT or SIGTERM; over stdio also until the client closes its input.

    The token is not printed: it is in a file that only you can read. To listen on an address that
    other machines can reach, choose one with --token-file or TOOLCRIB_TOKEN.

    Example: toolcrib serve --http --host-tools host-tools.yaml --store crib.sqlite3 --reload
    """
    if http == stdio:
        raise typer.BadParameter("choose a transport: --http or --stdio")
    if http:
        listener = HttpOptions(host, port, token_file, allow_host or (), allow_origin or ())
        serve_over_http(options, listener, approve_by_elicitation)
    else:
        _serve_stdio(options)


def _serve_stdio(options: RuntimeOptions) -> None:
    from toolcrib.transports.pipes import claim_pipes
    from toolcrib.transports.stdio import serve_stdio

    pipes = claim_pipes()
    run_hosted(options, lambda runtime: serve_stdio(runtime, pipes))
