"""Serving over HTTP from the command line: where, to whom, and what is said about it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from toolcrib.cli.extras import require_extra
from toolcrib.cli.output import redirected_stdout, show_note
from toolcrib.cli.runtime_options import RuntimeOptions, run_hosted
from toolcrib.cli.service import TOKEN_VARIABLE
from toolcrib.transports.mcp.options import ElicitedApproval, McpOptions

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.tokens import Tokens
    from toolcrib.transports.mcp.server import McpServer

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8420

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes any free one.")
]
ServerTokens = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="The tokens; made on loopback if not there."),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A Host to answer to; may be repeated."),
]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", metavar="ORIGIN", help="Pages that may ask; may be repeated."),
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
    """Where a server listens, and who may come in."""

    host: str
    port: int
    token_file: Path | None = None
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()


def serve_over_http(
    asked: RuntimeOptions, door: HttpOptions, approval: ElicitedApproval = "scope"
) -> None:
    """Serve until SIGINT or SIGTERM. What cannot be served ends the command with status 1."""
    from toolcrib.serving.origins import is_loopback

    require_extra("server", "serve --http")
    has_token = door.token_file is not None or bool(os.environ.get(TOKEN_VARIABLE))
    if not is_loopback(door.host) and not has_token:
        raise typer.BadParameter(
            f"{door.host} can be reached from other machines; name tokens with --token-file FILE "
            f"or {TOKEN_VARIABLE}, or listen on 127.0.0.1"
        )

    async def served(runtime: Runtime) -> None:
        from toolcrib.transports.http import serve_http

        tokens = _chosen_tokens(door)
        async with runtime:
            await serve_http(
                runtime,
                door.host,
                door.port,
                tokens=tokens,
                token_file=door.token_file,
                allowed_hosts=_names(door),
                allowed_origins=door.allowed_origins or None,
                on_ready=lambda url: _tell(url, _token_place(door)),
                mcp=_mcp(runtime, approval),
            )

    with redirected_stdout():
        run_hosted(asked, served, loop_factory=_loop_factory())


def _mcp(runtime: Runtime, approval: ElicitedApproval) -> McpServer | None:
    """What serves /mcp; None leaves it to one with the defaults, loaded when it is first asked."""
    if approval == "scope":
        return None
    require_extra("mcp", "--approve-by-elicitation")
    from toolcrib.transports.mcp.server import McpServer

    return McpServer(runtime, McpOptions(approve_by_elicitation=approval))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    return uvloop.new_event_loop


def _chosen_tokens(door: HttpOptions) -> Tokens | None:
    """Tokens that somebody chose; None leaves it to a file that is made on loopback."""
    from toolcrib.serving.origins import is_loopback
    from toolcrib.serving.tokens import Token, Tokens, read_tokens

    if door.token_file is not None:
        may_be_made = is_loopback(door.host) and not door.token_file.exists()
        return None if may_be_made else read_tokens(door.token_file)
    given = os.environ.get(TOKEN_VARIABLE)
    return Tokens([Token(given)]) if given else None


def _names(door: HttpOptions) -> list[str] | None:
    """The names to answer to: those that are given, besides its own."""
    from toolcrib.serving.origins import LOOPBACK_HOSTS

    if not door.allowed_hosts:
        return None
    own = f"[{door.host}]" if ":" in door.host else door.host
    return [*LOOPBACK_HOSTS, own, *door.allowed_hosts]


def _token_place(door: HttpOptions) -> str:
    from toolcrib.serving.tokens import default_token_file

    if door.token_file is None and os.environ.get(TOKEN_VARIABLE):
        return f"the token is that of {TOKEN_VARIABLE}"
    return f"the token is in {door.token_file or default_token_file()}"


def _tell(url: str, where: str) -> None:
    show_note(f"serving on {url}")
    show_note(where)
    show_note(f"see what it offers at {url}/openapi.json; stop with Ctrl-C")
