"""The commands that serve a runtime with the host's tools.

`toolcrib serve` waits for clients to connect, or for lines on stdin; `toolcrib mcp` serves the MCP
client that started it, and `toolcrib acp` the editor that did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

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
from toolcrib.cli.project_options import is_on_command_line
from toolcrib.cli.runtime_options import (
    ANCHOR_OPTIONS,
    CALLER_OPTIONS,
    ENGINE_OPTIONS,
    HOST_OPTIONS,
    HTTP_WATCH_OPTIONS,
    LOG_OPTIONS,
    NOTIFY_OPTIONS,
    REPLICA_OPTIONS,
    RuntimeOptions,
    check_model,
    run_served,
    takes_runtime_options,
)
from toolcrib.project.settings import ACCESS_SETTINGS, ELICITATION_SETTING, RUNTIME_SETTINGS
from toolcrib.transports.mcp.options import McpOptions

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.options import ElicitedApproval

SERVED_OPTIONS: Final = (
    *HOST_OPTIONS,
    "hooks",
    "approver_place",
    "adapter",
    "instructions",
    "allow_egress",
    *CALLER_OPTIONS,
    *REPLICA_OPTIONS,
    *ENGINE_OPTIONS,
    *ANCHOR_OPTIONS,
    "bind_to",
    "approve_own_calls",
    *LOG_OPTIONS,
    *HTTP_WATCH_OPTIONS,
    *NOTIFY_OPTIONS,
)
"""The options of a runtime that others use over HTTP."""


@takes_runtime_options(*SERVED_OPTIONS, "reload")
@takes_access_options()
def serve(
    options: RuntimeOptions,
    server: ServerOptions,
    http: Annotated[
        bool,
        typer.Option("--http", help="REST, server-sent events, WebSocket and MCP: the default."),
    ] = False,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="JSON-RPC lines on stdin and stdout.")
    ] = False,
    approve_by_elicitation: ApproveByElicitation = "role",
    open: Open = False,
) -> None:
    """Serve tools to clients, over HTTP or stdio.

    It runs until SIGINT or SIGTERM; over stdio also until the client closes its input.

    The owner's token is not printed: it is in a file that only you can read, or the one that you
    set in TOOLCRIB_OWNER_TOKEN. Everybody else gets a token with `toolcrib tokens create`, or signs
    in with --oidc-issuer. On an address that other machines can reach, one of these is needed.

    Example: toolcrib serve --host-tools host-tools.yaml --store crib.sqlite3 --reload

    Example: toolcrib serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    """
    if http and stdio:
        raise typer.BadParameter("--http and --stdio are two ways to serve; choose one")
    check_model(options)
    if stdio:
        _check_no_http_options()
        _serve_stdio(options)
        return
    serve_over_http(
        options,
        server,
        approve_by_elicitation,
        on_ready=lambda http, _: invite_to_console(http, server, opens=True) if open else None,
    )


def _check_no_http_options() -> None:
    """Refuse options of the command line that stdio has no use for."""
    watch = [setting for setting in RUNTIME_SETTINGS if setting.name in HTTP_WATCH_OPTIONS]
    flags = [
        setting.flag
        for setting in (*ACCESS_SETTINGS, ELICITATION_SETTING, *watch)
        if is_on_command_line(setting.name)
    ]
    if is_on_command_line("open"):
        flags.append("--open")
    if flags:
        raise typer.BadParameter(
            f"{', '.join(flags)}: for HTTP only; leave it out, or leave out --stdio"
        )


def _serve_stdio(options: RuntimeOptions) -> None:
    from toolcrib.transports.pipes import claim_pipes
    from toolcrib.transports.stdio import serve_stdio

    pipes = claim_pipes()
    run_served(options, lambda runtime: serve_stdio(runtime, pipes))


@takes_runtime_options(
    *HOST_OPTIONS,
    "hooks",
    "approver_place",
    *CALLER_OPTIONS,
    "reload",
    "bind_to",
    "approve_own_calls",
    *LOG_OPTIONS,
    *NOTIFY_OPTIONS,
)
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
    from toolcrib.mcp_client.sdk_packages import load_on_use

    load_on_use()
    from toolcrib.transports.mcp.server import McpServer
    from toolcrib.transports.pipes import claim_pipes

    pipes = claim_pipes()
    mcp_options = McpOptions(session=session, approve_by_elicitation=approve_by_elicitation)

    async def serve(runtime: Runtime) -> None:
        if options.store is None and runtime.config.approver is None:
            show_note(_who_decides(approve_by_elicitation), "yellow")
        await McpServer(runtime, mcp_options).serve_stdio(pipes)

    run_served(options, serve)


def _who_decides(by_elicitation: ElicitedApproval) -> str:
    """Who can decide calls that need approval, when there is no store that others could open."""
    if by_elicitation == "always":
        return (
            "approvals: only the person at the client can decide, by its forms; with --store FILE "
            "others can, by `toolcrib approvals`"
        )
    return (
        "approvals: nobody can decide a call that needs one; name --store FILE, and decide with "
        "`toolcrib approvals`, or trust the client's forms with --approve-by-elicitation always"
    )


@takes_runtime_options(
    *HOST_OPTIONS,
    "hooks",
    "approver_place",
    "adapter",
    "instructions",
    *CALLER_OPTIONS,
    "reload",
    "bind_to",
    *LOG_OPTIONS,
    *NOTIFY_OPTIONS,
)
def acp(options: RuntimeOptions) -> None:
    """Serve an editor that speaks the Agent Client Protocol, on stdin and stdout.

    Prompts need a model. With --store, sessions can be loaded after a restart.

    Example: toolcrib acp --host-tools tools.yaml --adapter mymodel:adapter --store crib.sqlite3
    """
    require_extra("acp", "acp")
    check_model(options)
    from toolcrib.transports.pipes import claim_pipes

    pipes = claim_pipes()
    from toolcrib.transports.acp.server import serve_acp

    run_served(options, lambda runtime: serve_acp(runtime, pipes))
