"""The parts of uvicorn that this package subclasses, and nothing else.

They are not a documented interface: `pyproject.toml` bounds uvicorn from above, and
`tests/serving/test_uvicorn_server.py` names the part that a new version has changed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_log = logging.getLogger(__name__)
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class _UvicornProtocol(asyncio.Protocol):
    """What the HTTP and the WebSocket protocol of uvicorn have in common."""

    transport: asyncio.Transport


def http_protocol(stall_seconds: float) -> type[asyncio.Protocol]:
    """The HTTP protocol, for clients that may stop reading for `stall_seconds`."""
    return _with_stall_limit(HttpToolsProtocol, stall_seconds)


def websocket_protocol(stall_seconds: float) -> type[asyncio.Protocol]:
    """The WebSocket protocol, for clients that may stop reading for `stall_seconds`."""
    return _with_stall_limit(WebSocketsSansIOProtocol, stall_seconds)


def _with_stall_limit(protocol: type[Any], seconds: float) -> type[asyncio.Protocol]:
    base = cast("type[_UvicornProtocol]", protocol)

    class StallLimitedProtocol(base):
        """Aborts a connection whose write buffer has stayed full for `seconds`. Otherwise a slow
        client would keep its unsent events in memory for as long as it likes.
        """

        _stall_timer: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            loop = asyncio.get_running_loop()
            self._stall_timer = loop.call_later(seconds, _abort, self.transport)

        def resume_writing(self) -> None:
            self._cancel_timer()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_timer()
            super().connection_lost(exc)

        def _cancel_timer(self) -> None:
            if self._stall_timer is not None:
                self._stall_timer.cancel()

    return StallLimitedProtocol


def _abort(transport: asyncio.Transport) -> None:
    """Close a connection and discard its unsent data, in the kernel too."""
    _log.info("a client stopped reading; its connection is closed")
    own_socket: Any = transport.get_extra_info("socket")
    if own_socket is not None:
        own_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


class UvicornServer(uvicorn.Server):
    """A uvicorn server that reports when it listens, leaves signals to its caller, and awaits
    `before_end` after it has stopped listening and before it ends open connections.
    """

    def __init__(
        self, config: uvicorn.Config, before_end: Callable[[], Awaitable[None]] | None
    ) -> None:
        super().__init__(config)
        self._before_end = before_end
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone: uvicorn raises a caught signal again when it is done, which would
        end the process before the runtime has closed.
        """
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self.is_ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, then end open connections."""
        if self._before_end is not None:
            for server in self.servers:
                server.close()
            await self._before_end()
        await super().shutdown(sockets)
