"""An application on a real socket: how it listens, how it ends, and by which names it is known.

Clients that do not read: cut, so that what waits to be sent to them is held no longer.

What they have missed is in the ledger, and they may come back for it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Self, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from toolcrib.errors import UsageError
from toolcrib.serving.origins import LOOPBACK_HOSTS
from toolcrib.serving.stop_signals import on_stop_signals
from toolcrib.transports.http.joined import joining

if TYPE_CHECKING:
    from starlette.types import ASGIApp


STALL_SECONDS: Final = 30.0
"""How long a client may take to read what was sent before anything more is."""

_log = logging.getLogger(__name__)
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class _Served(asyncio.Protocol):
    """What both protocols of uvicorn's have."""

    transport: asyncio.Transport


def impatient(protocol: type[Any], seconds: float) -> type[asyncio.Protocol]:
    """A protocol of uvicorn's that cuts a connection whose buffer stays full for so long."""
    base = cast("type[_Served]", protocol)

    class Impatient(base):
        """Ends the connection when its client has stopped to read."""

        _stalling: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            loop = asyncio.get_running_loop()
            self._stalling = loop.call_later(seconds, cut, self.transport)

        def resume_writing(self) -> None:
            self._patient()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._patient()
            super().connection_lost(exc)

        def _patient(self) -> None:
            if self._stalling is not None:
                self._stalling.cancel()

    return Impatient


def cut(transport: asyncio.Transport) -> None:
    """End a connection now, and let go of all that was to be sent, the kernel's part too."""
    _log.info("a client did not read for too long and was cut")
    own: Any = transport.get_extra_info("socket")
    if own is not None:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()


class Listener:
    """Listens from `async with` on, and drains at its end. `before_end` is called when nothing new
    is taken any more, and what runs has not been ended yet.
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
            http=impatient(joining(HttpToolsProtocol), stall_seconds),
            ws=impatient(WebSocketsSansIOProtocol, stall_seconds),
            ws_max_size=max_message,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(drain_seconds)),
        )
        self._server = _Server(config, before_end)
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it listens. With port 0, the port that was found is known once it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def __aenter__(self) -> Self:
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

    async def until_stopped(self, on_ready: Callable[[str], None] | None = None) -> None:
        """Listen until SIGINT or SIGTERM, then drain. `on_ready` gets the URL."""
        with on_stop_signals(self.stop):
            async with self:
                if on_ready is not None:
                    on_ready(self.url)
                await self.wait()


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, before_end: Callable[[], Awaitable[None]] | None
    ) -> None:
        super().__init__(config)
        self._before_end = before_end
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # Uvicorn raises a signal again when it is done, which would end the process before what is
        # served has closed.
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._before_end is not None:
            for server in self.servers:
                server.close()
            await self._before_end()
        await super().shutdown(sockets)


def own_names(host: str) -> tuple[str, ...]:
    """Loopback, and the address listened on: no page can make a browser send that as its name."""
    try:
        address = ip_address(host)
    except ValueError:
        return LOOPBACK_HOSTS
    if address.is_unspecified:
        return LOOPBACK_HOSTS
    return (*LOOPBACK_HOSTS, f"[{host}]" if address.version == 6 else host)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error.strerror}") from None
