"""The open event streams and WebSockets of an HTTP server, so that closing can end them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol

from toolcrib.serving.connections import ListenerLimits
from toolcrib.serving.refusals import wait_for_disconnect
from toolcrib.transports.subscriptions import UnsentFrames

if TYPE_CHECKING:
    from starlette.types import Receive

    from toolcrib.transports.peer import Peer


class OpenStream(Protocol):
    """What a stream reads from, until it is closed."""

    def close(self) -> None:
        """End it."""
        ...


class Connections:
    """The open event streams and WebSockets, which do not end by themselves.

    `keeps_tasks` says that the server runs every request in a task and does not cancel it when the
    client disconnects, so that an operation needs no task of its own.
    """

    def __init__(
        self,
        *,
        heartbeat: float = 15.0,
        keeps_tasks: bool = False,
        limits: ListenerLimits | None = None,
    ) -> None:
        limits = limits or ListenerLimits()
        self.unsent = UnsentFrames(limits.unsent_bytes, limits.unsent_bytes_in_all)
        self.heartbeat = heartbeat
        self.keeps_tasks = keeps_tasks
        self._readers: set[OpenStream] = set()
        self._peers: set[Peer] = set()
        self.is_closing = False
        self._end_functions: list[Callable[[float], Awaitable[None]]] = []

    def on_close(self, end: Callable[[float], Awaitable[None]]) -> None:
        """Add a function that ends something else; it gets the seconds that it may take."""
        self._end_functions.append(end)

    @asynccontextmanager
    async def open_reader(
        self, reader: OpenStream, receive: Receive
    ) -> AsyncGenerator[asyncio.Future[None]]:
        """Register a reader; the future is done when the client has disconnected."""
        disconnected = asyncio.ensure_future(wait_for_disconnect(receive))
        disconnected.add_done_callback(lambda _: reader.close())
        self._readers.add(reader)
        try:
            yield disconnected
        finally:
            self._readers.discard(reader)
            reader.close()
            disconnected.cancel()

    @contextmanager
    def open_peer(self, peer: Peer) -> Generator[None]:
        """Register the peer of a WebSocket."""
        self._peers.add(peer)
        try:
            yield
        finally:
            self._peers.discard(peer)

    async def close(self, drain_seconds: float) -> None:
        """End every stream, and every WebSocket once its requests are answered. Clients reconnect
        and resume after the last event they have.
        """
        self.is_closing = True
        for reader in tuple(self._readers):
            reader.close()
        for peer in tuple(self._peers):
            peer.notify_closing()
        await asyncio.gather(
            *(peer.drain(drain_seconds) for peer in tuple(self._peers)),
            *(end(drain_seconds) for end in self._end_functions),
        )
