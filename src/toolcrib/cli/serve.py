"""`toolcrib serve`: a runtime with the host's tools, for clients to connect to."""

from __future__ import annotations

from typing import Annotated

import typer

from toolcrib.cli.hosting import (
    AdapterName,
    Hosting,
    HostToolFiles,
    HostToolModules,
    KeepIn,
    Plugins,
    PolicyFile,
    Reload,
    run_hosted,
)


def serve(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="JSON-RPC lines on stdin and stdout.")
    ] = False,
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    store: KeepIn = None,
    policy: PolicyFile = None,
    adapter: AdapterName = None,
    reload: Reload = False,
) -> None:
    """Serve tools to a client until it ends its input, or this process is told to stop.

    Example: toolcrib serve --stdio --host-tools tools.yaml --store crib.sqlite3
    """
    if not stdio:
        raise typer.BadParameter("say how to serve: --stdio")
    asked = Hosting(
        files=host_tools,
        modules=host_tools_module,
        plugins=plugins,
        store=store,
        policy=policy,
        adapter=adapter,
        reload=reload,
    )
    from toolcrib.transports.stdio import serve_stdio
    from toolcrib.transports.stdio_pipes import claim_pipes

    pipes = claim_pipes()
    run_hosted(asked, lambda runtime: serve_stdio(runtime, pipes))
