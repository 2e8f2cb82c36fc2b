"""An ASGI application on a socket: it listens, and drains when it stops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Self

import uvicorn

from toolcrib.errors import UsageError
from toolcrib.serving.stop_signals import on_stop_signals
from toolcrib.serving.uvicorn_server import UvicornServer, http_protocol, websocket_protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp


STALL_SECONDS: Final = 30.0
"""How long a client may stop reading before its connection is closed."""


class Listener:
    """Serves an application from `async with` on, and drains when the block ends.

    `before_end` is awaited when the server no longer accepts connections and the open ones have
    not been closed yet.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        max_message: int,
        drain_seconds: float,
        stall_seconds: float,
        before_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._host, self._port = host, port
        config = uvicorn.Config(
            app,
            http=http_protocol(stall_seconds),
            ws=websocket_protocol(stall_seconds),
            ws_max_size=max_message,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(drain_seconds)),
        )
        self._server = UvicornServer(config, before_end)
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The base URL. With port 0, the port is known once the server listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def __aenter__(self) -> Self:
        server_socket = _listen(self._host, self._port)
        self._port = server_socket.getsockname()[1]
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[server_socket]))
        await self._server.is_ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await self.wait()

    def stop(self) -> None:
        """Accept nothing new, and end when open requests are done or the drain time is over."""
        self._server.should_exit = True

    async def wait(self) -> None:
        """Wait until the server has stopped."""
        if self._serving is not None:
            await self._serving

    async def until_stopped(self, on_ready: Callable[[str], None] | None = None) -> None:
        """Serve until SIGINT or SIGTERM, then drain. `on_ready` gets the URL."""
        with on_stop_signals(self.stop):
            async with self:
                if on_ready is not None:
                    on_ready(self.url)
                await self.wait()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error.strerror}") from None
