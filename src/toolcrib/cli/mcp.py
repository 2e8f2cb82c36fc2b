"""`toolcrib mcp`: the host's tools for an MCP client that starts this process."""

from __future__ import annotations

from typing import Annotated

import typer

from toolcrib.cli.extras import require_extra
from toolcrib.cli.http_options import ApproveByElicitation
from toolcrib.cli.runtime_options import (
    HOST_OPTIONS,
    RuntimeOptions,
    run_hosted,
    takes_runtime_options,
)
from toolcrib.transports.mcp.options import McpOptions


@takes_runtime_options(*HOST_OPTIONS, "reload")
def mcp(
    options: RuntimeOptions,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="NAME", help="Work in this session of the store."),
    ] = None,
    approve_by_elicitation: ApproveByElicitation = "scope",
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
