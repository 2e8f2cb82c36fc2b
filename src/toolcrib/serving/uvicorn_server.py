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
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from toolcrib.serving.connections import CUT, ConnectionTable, ListenerLimits

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal

_log = logging.getLogger(__name__)
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class _GuardedProtocol(asyncio.Protocol):
    """Aborts a connection whose write buffer has stayed full for too long, or has grown too large.
    Otherwise a slow client would keep its unsent events in memory.
    """

    limits: ListenerLimits
    table: ConnectionTable
    transport: asyncio.Transport
    _stall_timer: asyncio.TimerHandle | None = None
    _last_principal: Principal | None = None

    @property
    def principal(self) -> Principal | None:
        """The principal of the last authenticated request of the connection."""
        scope: dict[str, Any] = getattr(self, "scope", None) or {}
        self._last_principal = scope.get("toolcrib.principal", self._last_principal)
        return self._last_principal

    @property
    def unsent_bytes(self) -> int:
        """How much waits to be read by the client."""
        return self.transport.get_write_buffer_size()

    @property
    def unfinished_bytes(self) -> int:
        """How much of a message has come that is not complete."""
        return 0

    def enforce(self, now: float) -> None:
        """End the connection when one of its limits has been passed."""
        if self.unsent_bytes > self.limits.unsent_bytes:
            self.cut("it has too much to read")

    def cut(self, reason: str) -> None:
        """End the connection at once, and discard its unsent data, in the kernel too."""
        _log.info("a connection is closed: %s", reason)
        own_socket: Any = self.transport.get_extra_info("socket")
        if own_socket is not None:
            own_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = self.limits.stall_seconds
        loop = asyncio.get_running_loop()
        self._stall_timer = loop.call_later(seconds, self.cut, "it stopped reading")

    def resume_writing(self) -> None:
        self._cancel_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self.table.release(id(self.transport))
        super().connection_lost(exc)

    def _cancel_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()


class GuardedWebSocketProtocol(_GuardedProtocol, WebSocketsSansIOProtocol):
    """Takes the place of the HTTP protocol in the table of connections. Bounds each message in time
    and in fragments; uvicorn bounds it in bytes.
    """

    _message_since: float | None = None
    _message_bytes = 0

    @property
    def unfinished_bytes(self) -> int:
        return self._message_bytes

    def data_received(self, data: bytes) -> None:
        self._message_bytes += len(data)
        super().data_received(data)
        if not self.frames and not self.conn.reader.buffer:
            self._message_since, self._message_bytes = None, 0
        elif self._message_since is None:
            self._message_since = self.loop.time()

    def send_receive_event_to_app(self) -> None:
        self._message_since, self._message_bytes = None, 0
        super().send_receive_event_to_app()

    def handle_cont(self, event: Any) -> None:
        super().handle_cont(event)
        if len(self.frames) > _MAX_FRAGMENTS:
            self.cut("a message has too many fragments")

    def enforce(self, now: float) -> None:
        """End the connection when one of its limits has been passed."""
        super().enforce(now)
        if self.read_paused or self._message_since is None:
            # What has come meanwhile waits for us, not for the client.
            self._message_since = None if self._message_since is None else now
            return
        seconds = self.limits.body_seconds + self._message_bytes / self.limits.body_bytes_per_second
        if now > self._message_since + seconds:
            self.cut("a message took too long to arrive")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.table.hand_over(id(transport), self)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # A refusal is an answer. Uvicorn takes it for none, and logs an error that strangers
            # could fill the disk with.
            self.handshake_complete = True

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if (scope := getattr(self, "scope", None)) is not None:
            scope[CUT] = self.cut


class GuardedHttpProtocol(_GuardedProtocol, HttpToolsProtocol):
    """Bounds the headers and the body of each request, in bytes and in time."""

    _is_in_head = True
    _is_at_end = False
    """Whether the last bytes ended a request: what follows is another one's."""
    _head_bytes = _rest_bytes = 0
    """What has come of the head, and of what follows it."""
    _head_until: float | None = None
    _body_since: float | None = None
    _body_bytes = 0
    _refusal_status = 400
    _is_refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        now = self.loop.time()
        self._head_until = now + self.limits.header_seconds
        address = None if self.client is None else self.client[0]
        if not self.table.admit(id(transport), self, address, now):
            self._refuse(503)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._is_at_end = False
        if self._is_in_head:
            self._head_bytes += len(data)
        else:
            self._rest_bytes += len(data)
        super().data_received(data)
        if self._is_at_end:
            return
        if not self._is_in_head:
            if self._body_since is None:
                self._body_since = self.loop.time()
            self._check_framing()
        elif self._head_bytes > self.limits.header_bytes or self._has_many_headers():
            self._refuse(431)
        elif self._head_until is None:
            self._head_until = self.loop.time() + self.limits.header_seconds

    def on_message_begin(self) -> None:
        # The scope of the last request goes; whose it was stays.
        self._last_principal = self.principal
        self._is_at_end = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        # The bytes so far may be those of a body too, so the exact sum is taken where it matters.
        if self._head_bytes > self.limits.header_bytes:
            self._check_head()
        if len(self.headers) > self.limits.header_count:
            self._stop(431)
        self._is_in_head, self._head_until, self._head_bytes = False, None, 0
        self._body_since, self._body_bytes, self._rest_bytes = None, 0, 0
        super().on_headers_complete()
        if len(self.pipeline) > _MAX_PIPELINED:
            self._stop(503)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if len(self.headers) > self.limits.header_count:
            # Trailers count too.
            self._stop(431)
        self._is_in_head = self._is_at_end = True
        self._body_since = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """The parser reports an exception of a callback as a request that it cannot read."""
        self._refuse(self._refusal_status)

    def enforce(self, now: float) -> None:
        """End the connection when one of its limits has been passed."""
        super().enforce(now)
        is_answered = self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]
        if self._head_until is not None:
            is_late = is_answered and now > self._head_until
        elif self._body_since is not None and not self.flow.read_paused:
            is_late = now > self._body_since + self._seconds_for_body(is_answered)
        else:
            is_late = False
        if is_late:
            self._refuse(408)

    def _seconds_for_body(self, is_answered: bool) -> float:
        # A client that has its answer already need not send the rest.
        if is_answered:
            return _REST_SECONDS
        return self.limits.body_seconds + self._body_bytes / self.limits.body_bytes_per_second

    def _check_head(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.limits.header_bytes:
            self._stop(431)

    def _check_framing(self) -> None:
        """Bound what comes with a body and is none of it: sizes of chunks, and trailers."""
        limit = self.limits.header_bytes + _FRAMING_FACTOR * self._body_bytes
        if self._rest_bytes > limit or self._has_many_headers():
            self._refuse(431)

    def _has_many_headers(self) -> bool:
        # Counted when bytes have come, and not header by header: the bytes are bounded. Before the
        # first request there is no list.
        headers: Any = self.headers
        return headers is not None and len(headers) > self.limits.header_count

    def _stop(self, status: int) -> NoReturn:
        """Have the parser stop, which is then answered with this status."""
        self._refusal_status = status
        raise ValueError("the request exceeds a limit")

    def _refuse(self, status: int) -> None:
        """Answer with a status unless another answer is under way, and close the connection."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self._head_until = self._body_since = None
        cycle: Any = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            self.transport.write(_REFUSALS[status])
        self.transport.close()


def protocols(
    limits: ListenerLimits, table: ConnectionTable
) -> tuple[type[asyncio.Protocol], type[asyncio.Protocol]]:
    """The protocols for HTTP and for WebSockets, whose connections are in `table`."""
    options = {"limits": limits, "table": table}
    http = type("HttpProtocol", (GuardedHttpProtocol,), options)
    return http, type("WebSocketProtocol", (GuardedWebSocketProtocol,), options)


def _refusal(status: int, text: str) -> bytes:
    body = b'{"error":{"kind":"%s","message":"%s","facts":{}}}' % (
        b"unavailable" if status == 503 else b"invalid",
        text.encode(),
    )
    line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
    head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
    return f"{line}{head}\r\n\r\n".encode() + body


_REFUSALS: Final = {
    400: _refusal(400, "the request is not valid HTTP"),
    408: _refusal(408, "the request took too long to arrive"),
    431: _refusal(431, "the headers are too large or too many"),
    503: _refusal(503, "the server has too many connections; try again later"),
}
_MAX_PIPELINED: Final = 32
_MAX_FRAGMENTS: Final = 16_384
_FRAMING_FACTOR: Final = 10
_REST_SECONDS: Final = 2.0
_ENFORCE_SECONDS: Final = 0.5


class UvicornServer(uvicorn.Server):
    """A uvicorn server that reports when it listens, leaves signals to its caller, and awaits
    `before_end` after it has stopped listening and before it ends open connections.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        before_end: Callable[[], Awaitable[None]] | None,
        limits: ListenerLimits,
        table: ConnectionTable,
    ) -> None:
        super().__init__(config)
        self._before_end = before_end
        self._limits = limits
        self._table = table
        self._timer: asyncio.TimerHandle | None = None
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone: uvicorn raises a caught signal again when it is done, which would
        end the process before the runtime has closed.
        """
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, with a limit on the time of a TLS handshake."""
        await self.lifespan.startup()
        loop, seconds = asyncio.get_running_loop(), self._limits.header_seconds
        self.servers = [
            await loop.create_server(
                self._protocol,
                sock=own_socket,
                ssl=self.config.ssl,
                backlog=self.config.backlog,
                ssl_handshake_timeout=None if self.config.ssl is None else seconds,
            )
            for own_socket in sockets or ()
        ]
        self.started = True
        self._enforce()
        self.is_ready.set()

    def _protocol(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        return protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _enforce(self) -> None:
        loop = asyncio.get_running_loop()
        self._table.enforce(loop.time())
        self._timer = loop.call_later(_ENFORCE_SECONDS, self._enforce)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, then end open connections."""
        if self._before_end is not None:
            for server in self.servers:
                server.close()
            await self._before_end()
        await super().shutdown(sockets)
        if self._timer is not None:
            self._timer.cancel()
