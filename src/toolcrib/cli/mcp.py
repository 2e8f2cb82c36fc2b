"""`toolcrib mcp`: the host's tools for an MCP client that starts this process."""

from __future__ import annotations

from typing import Annotated

import typer

from toolcrib.cli.output import fail
from toolcrib.cli.runtime_options import (
    HostToolFiles,
    HostToolModules,
    KeepIn,
    Plugins,
    PolicyFile,
    ReloadOption,
    RuntimeOptions,
    run_hosted,
)
from toolcrib.transports.mcp.options import ElicitedApproval, McpOptions


def mcp(
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    store: KeepIn = None,
    policy: PolicyFile = None,
    reload: ReloadOption = False,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="NAME", help="Work in this session of the store."),
    ] = None,
    approve_by_elicitation: Annotated[
        ElicitedApproval,
        typer.Option(
            "--approve-by-elicitation",
            help="Whose answer to a form at the client decides a call that needs approval; "
            "'always' trusts the client to ask a person.",
        ),
    ] = "scope",
) -> None:
    """Serve tools over MCP on stdin and stdout, until the client leaves.

    Example: toolcrib mcp --host-tools tools.yaml --store crib.sqlite3
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        fail("MCP is not installed here; pip install 'toolcrib[mcp]'")
    asked = RuntimeOptions(
        files=host_tools,
        modules=host_tools_module,
        plugins=plugins,
        store=store,
        policy=policy,
        reload=reload,
    )
    from toolcrib.transports.mcp.server import McpServer
    from toolcrib.transports.pipes import claim_pipes

    pipes = claim_pipes()
    options = McpOptions(session=session, approve_by_elicitation=approve_by_elicitation)
    run_hosted(asked, lambda runtime: McpServer(runtime, options).serve_stdio(pipes))
