"""The options of `serve --http`, and serving with them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from toolcrib.cli.output import redirected_stdout, require_extra, show_note
from toolcrib.cli.runtime_options import RuntimeOptions, run_hosted
from toolcrib.cli.service import TOKEN_VARIABLE
from toolcrib.transports.mcp.options import ElicitedApproval, McpOptions

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.tokens import Tokens
    from toolcrib.transports.mcp.server import McpServer

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8420

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes any free one.")
]
ServerTokens = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="The tokens; on loopback created if missing."
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A Host header to accept; may be repeated."),
]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", metavar="ORIGIN", help="Pages to accept; may be repeated."),
]


ApproveByElicitation = Annotated[
    ElicitedApproval,
    typer.Option(
        "--approve-by-elicitation",
        help="Whose answer to a form at an MCP client decides a call that needs approval; "
        "'always' trusts the client to ask a person.",
    ),
]


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Where a server listens, and which clients it accepts."""

    host: str
    port: int
    token_file: Path | None = None
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()


def serve_over_http(
    options: RuntimeOptions, http: HttpOptions, approval: ElicitedApproval = "role"
) -> None:
    """Serve until SIGINT or SIGTERM. A fault in the options ends the command with status 1."""
    from toolcrib.serving.origins import is_loopback

    require_extra("server", "serve --http")
    has_token = http.token_file is not None or bool(os.environ.get(TOKEN_VARIABLE))
    if not is_loopback(http.host) and not has_token:
        raise typer.BadParameter(
            f"{http.host} can be reached from other machines; set tokens with --token-file FILE "
            f"or {TOKEN_VARIABLE}, or listen on 127.0.0.1"
        )

    async def serve(runtime: Runtime) -> None:
        from toolcrib.transports.http import serve_http

        tokens = _chosen_tokens(http)
        async with runtime:
            await serve_http(
                runtime,
                http.host,
                http.port,
                tokens=tokens,
                token_file=http.token_file,
                allowed_hosts=_accepted_hosts(http),
                allowed_origins=http.allowed_origins or None,
                on_ready=lambda url: _announce(url, _token_place(http)),
                mcp=_mcp(runtime, approval),
            )

    with redirected_stdout():
        run_hosted(options, serve, loop_factory=_loop_factory())


def _mcp(runtime: Runtime, approval: ElicitedApproval) -> McpServer | None:
    """The server of /mcp; None for one with the defaults, loaded at the first request."""
    if approval == "role":
        return None
    require_extra("mcp", "--approve-by-elicitation")
    from toolcrib.transports.mcp.server import McpServer

    return McpServer(runtime, McpOptions(approve_by_elicitation=approval))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    return uvloop.new_event_loop


def _chosen_tokens(http: HttpOptions) -> Tokens | None:
    """The configured tokens; None for a file that is created on loopback."""
    from toolcrib.serving.origins import is_loopback
    from toolcrib.serving.tokens import Token, Tokens, read_tokens

    if http.token_file is not None:
        is_created = is_loopback(http.host) and not http.token_file.exists()
        return None if is_created else read_tokens(http.token_file)
    token = os.environ.get(TOKEN_VARIABLE)
    return Tokens([Token(token)]) if token else None


def _accepted_hosts(http: HttpOptions) -> list[str] | None:
    """The accepted Host headers: the configured ones, and the server's own."""
    from toolcrib.serving.origins import LOOPBACK_HOSTS

    if not http.allowed_hosts:
        return None
    own = f"[{http.host}]" if ":" in http.host else http.host
    return [*LOOPBACK_HOSTS, own, *http.allowed_hosts]


def _token_place(http: HttpOptions) -> str:
    from toolcrib.serving.tokens import default_token_file

    if http.token_file is None and os.environ.get(TOKEN_VARIABLE):
        return f"the token is that of {TOKEN_VARIABLE}"
    return f"the token is in {http.token_file or default_token_file()}"


def _announce(url: str, where: str) -> None:
    show_note(f"serving on {url}")
    show_note(where)
    show_note(f"the API is described at {url}/openapi.json; stop with Ctrl-C")
