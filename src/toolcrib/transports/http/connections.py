"""What is open on one server, so that closing can end it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from toolcrib.serving.requests import wait_for_disconnect

if TYPE_CHECKING:
    from starlette.types import Receive

    from toolcrib.runtime.event_reader import EventReader
    from toolcrib.transports.peer import Peer


class Connections:
    """The open streams and sockets, which would never end by themselves.

    `keeps_tasks` says that the server has a task for every request and does not cancel it when its
    client leaves, so that an operation needs no task of its own to go on.
    """

    def __init__(self, *, heartbeat: float = 15.0, keeps_tasks: bool = False) -> None:
        self.heartbeat = heartbeat
        self.keeps_tasks = keeps_tasks
        self._readers: set[EventReader] = set()
        self._peers: set[Peer] = set()
        self._ends: list[Callable[[float], Awaitable[None]]] = []

    def on_close(self, end: Callable[[float], Awaitable[None]]) -> None:
        """Have something else end too, in no more than the seconds that it is given."""
        self._ends.append(end)

    @asynccontextmanager
    async def reading(
        self, reader: EventReader, receive: Receive
    ) -> AsyncGenerator[asyncio.Future[None]]:
        """Read until the client leaves; the future is done when it has."""
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        gone.add_done_callback(lambda _: reader.close())
        self._readers.add(reader)
        try:
            yield gone
        finally:
            self._readers.discard(reader)
            reader.close()
            gone.cancel()

    @contextmanager
    def speaking(self, peer: Peer) -> Generator[None]:
        """Serve a socket."""
        self._peers.add(peer)
        try:
            yield
        finally:
            self._peers.discard(peer)

    async def close(self, drain_seconds: float) -> None:
        """End every stream, and every socket once it has its answers. Clients come back and go on
        after the last event they have.
        """
        for reader in tuple(self._readers):
            reader.close()
        for peer in tuple(self._peers):
            peer.say_closing()
        await asyncio.gather(
            *(peer.drain(drain_seconds) for peer in tuple(self._peers)),
            *(end(drain_seconds) for end in self._ends),
        )
