"""A runtime served over HTTP on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from toolcrib.errors import UsageError
from toolcrib.transports.http.app import create_app
from toolcrib.transports.http.connections import Connections
from toolcrib.transports.http.joined import joining
from toolcrib.transports.http.stalled import STALL_SECONDS, impatient
from toolcrib.transports.security import Tokens, default_token_file, read_or_make_tokens
from toolcrib.transports.security_origins import LOOPBACK_HOSTS, check_bind
from toolcrib.transports.stop_signals import on_stop_signals

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.server import McpServer

DEFAULT_PORT: Final = 8420


class HttpServer:
    """Listens from `async with` on, and drains at its end. The runtime stays its maker's.

    Without `tokens` those of `token_file` are taken, which is made when it is not there; then only
    loopback may be listened on.
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
        self._host, self._port = host, port
        connections = Connections(heartbeat=heartbeat, keeps_tasks=True)
        app = create_app(
            runtime,
            tokens=tokens or read_or_make_tokens(token_file or default_token_file()),
            allowed_hosts=allowed_hosts or _own_names(host),
            allowed_origins=allowed_origins,
            connections=connections,
            mcp=mcp,
        )
        config = uvicorn.Config(
            app,
            http=impatient(joining(HttpToolsProtocol), stall_seconds),
            ws=impatient(WebSocketsSansIOProtocol, stall_seconds),
            ws_max_size=runtime.config.max_payload_bytes,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(runtime.config.drain_seconds)),
        )
        self._server = _Server(config, connections, runtime.config.drain_seconds)
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it listens. With port 0, the port that was found is known once it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def __aenter__(self) -> HttpServer:
        listening = _listen(self._host, self._port)
        self._port = listening.getsockname()[1]
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[listening]))
        await self._server.is_ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await self.wait()

    def stop(self) -> None:
        """Take nothing new, and end when what runs has ended or its time is up."""
        self._server.should_exit = True

    async def wait(self) -> None:
        """Wait until it has stopped."""
        if self._serving is not None:
            await self._serving


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
    with on_stop_signals(server.stop):
        async with server:
            if on_ready is not None:
                on_ready(server.url)
            await server.wait()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, connections: Connections, drain: float) -> None:
        super().__init__(config)
        self._connections = connections
        self._drain = drain
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # Uvicorn raises a signal again when it is done, which would end the process before the
        # runtime has closed.
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._connections.close(self._drain)
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error.strerror}") from None


def _own_names(host: str) -> tuple[str, ...]:
    """Loopback, and the address listened on: no page can make a browser send that as its name."""
    try:
        address = ip_address(host)
    except ValueError:
        return LOOPBACK_HOSTS
    if address.is_unspecified:
        return LOOPBACK_HOSTS
    return (*LOOPBACK_HOSTS, f"[{host}]" if address.version == 6 else host)
