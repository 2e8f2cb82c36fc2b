"""A runtime served over HTTP on a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.serving.listener import STALL_SECONDS, Listener
from toolcrib.serving.origins import check_bind, own_hosts
from toolcrib.serving.tokens import Tokens, default_token_file, read_or_create_tokens
from toolcrib.transports.http.app import create_app
from toolcrib.transports.http.connections import Connections

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.server import McpServer


DEFAULT_PORT: Final = 8420


class HttpServer(Listener):
    """Serves a started runtime from `async with` on, and drains when the block ends. The caller
    closes the runtime.

    Without `tokens`, the tokens are those of `token_file`, which is created if it is missing, and
    the server may listen on loopback only.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        tokens: Tokens | None = None,
        token_file: Path | None = None,
        allowed_hosts: Iterable[str] | None = None,
        allowed_origins: Iterable[str] | None = None,
        heartbeat: float = 15.0,
        stall_seconds: float = STALL_SECONDS,
        mcp: McpServer | None = None,
    ) -> None:
        check_bind(host, has_explicit_token=tokens is not None)
        connections = Connections(heartbeat=heartbeat, keeps_tasks=True)
        app = create_app(
            runtime,
            tokens=tokens or read_or_create_tokens(token_file or default_token_file()),
            allowed_hosts=allowed_hosts or own_hosts(host),
            allowed_origins=allowed_origins,
            connections=connections,
            mcp=mcp,
        )
        drain = runtime.config.drain_seconds
        super().__init__(
            app,
            host,
            port,
            max_message=runtime.config.max_payload_bytes,
            drain_seconds=drain,
            stall_seconds=stall_seconds,
            before_end=partial(connections.close, drain),
        )


async def serve_http(
    runtime: Runtime,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    tokens: Tokens | None = None,
    token_file: Path | None = None,
    allowed_hosts: Iterable[str] | None = None,
    allowed_origins: Iterable[str] | None = None,
    on_ready: Callable[[str], None] | None = None,
    mcp: McpServer | None = None,
) -> None:
    """Serve a started runtime until SIGINT or SIGTERM, then drain. `on_ready` gets the URL."""
    server = HttpServer(
        runtime,
        host=host,
        port=port,
        tokens=tokens,
        token_file=token_file,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        mcp=mcp,
    )
    await server.until_stopped(on_ready)
