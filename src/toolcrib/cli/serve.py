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
    AdapterName,
    HostToolFiles,
    HostToolModules,
    Instructions,
    KeepIn,
    Plugins,
    PolicyFile,
    ReloadOption,
    RuntimeOptions,
    run_hosted,
)


def serve(
    http: Annotated[
        bool, typer.Option("--http", help="REST, server-sent events and WebSocket.")
    ] = False,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="JSON-RPC lines on stdin and stdout.")
    ] = False,
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    store: KeepIn = None,
    policy: PolicyFile = None,
    adapter: AdapterName = None,
    instructions: Instructions = "",
    reload: ReloadOption = False,
    host: Host = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    token_file: ServerTokens = None,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    approve_by_elicitation: ApproveByElicitation = "scope",
) -> None:
    """Serve tools to clients, over HTTP or stdio.

    It ends when the process is told to stop; over stdio also when the client ends its input.

    The token is never printed: a file has it that only you can read. With an address that others
    can reach, --token-file or TOOLCRIB_TOKEN must name one that you chose.

    Example: toolcrib serve --http --host-tools host-tools.yaml --store crib.sqlite3 --reload
    """
    if http == stdio:
        raise typer.BadParameter("say how to serve: --http or --stdio")
    asked = RuntimeOptions(
        files=host_tools,
        modules=host_tools_module,
        plugins=plugins,
        store=store,
        policy=policy,
        adapter=adapter,
        instructions=instructions,
        reload=reload,
    )
    if http:
        door = HttpOptions(host, port, token_file, allow_host or (), allow_origin or ())
        serve_over_http(asked, door, approve_by_elicitation)
    else:
        _serve_stdio(asked)


def _serve_stdio(asked: RuntimeOptions) -> None:
    from toolcrib.transports.pipes import claim_pipes
    from toolcrib.transports.stdio import serve_stdio

    pipes = claim_pipes()
    run_hosted(asked, lambda runtime: serve_stdio(runtime, pipes))
