"""Subscriptions to the resources of one mounted server, kept over reconnections.

In the handshake protocol a subscription is a request and updates come as notifications; in the
stateless one it is a stream for each URI.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import CallEnded

if TYPE_CHECKING:
    from mcp import Client

    from toolcrib.mcp_client.connection import Connection

logger = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS: Final = 500
"""How many URIs of one server may be subscribed to."""
_ANSWER_SECONDS: Final = 20.0
_FIRST_PAUSE: Final = 1.0
_MAX_PAUSE: Final = 30.0


class RemoteSubscriptions:
    """The URIs that somebody here wants to hear of; the server is asked once for each."""

    def __init__(self, on_update: Callable[[str], None]) -> None:
        self._on_update = on_update
        self._wanted: Counter[str] = Counter()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._connection: Connection | None = None

    async def add(self, uri: str) -> None:
        """Hear of updates of a URI until `discard`. Raises `CallEnded`."""
        connection = self._connection
        if connection is not None:
            capability = getattr(connection.capabilities, "resources", None)
            if capability is None or not capability.subscribe:
                raise CallEnded("unavailable", "The server has no subscriptions to resources.")
        if uri not in self._wanted and len(self._wanted) >= MAX_SUBSCRIPTIONS:
            raise CallEnded(
                "unavailable", f"At most {MAX_SUBSCRIPTIONS} URIs can be subscribed to."
            )
        self._wanted[uri] += 1
        task = self._tasks.get(uri)
        if connection is None or (task is not None and not task.done()):
            return
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._begin(connection, uri)
        except Exception as error:
            await self.discard(uri)
            if isinstance(error, CallEnded):
                raise
            raise CallEnded("unavailable", "The server refused the subscription.") from error

    async def discard(self, uri: str) -> None:
        """One who subscribed is gone; after the last one the server is told."""
        if self._wanted[uri] > 1:
            self._wanted[uri] -= 1
            return
        del self._wanted[uri]
        task = self._tasks.pop(uri, None)
        if task is not None:
            task.cancel()

    def connected(self, connection: Connection) -> None:
        """Subscribe again at a new connection."""
        self._connection = connection
        for uri in self._wanted:
            self._begin(connection, uri).add_done_callback(_retrieve)

    def disconnected(self) -> None:
        """The server is away, and its subscriptions with it."""
        self._connection = None
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def _begin(self, connection: Connection, uri: str) -> asyncio.Future[None]:
        """Subscribe in a task of its own; the future is done when the server has agreed."""
        agreed = asyncio.get_running_loop().create_future()
        self._tasks[uri] = asyncio.create_task(self._hold(connection, uri, agreed))
        return agreed

    async def _hold(self, connection: Connection, uri: str, agreed: asyncio.Future[None]) -> None:
        """Keep a subscription, and begin it again when its stream ends before the connection."""
        pause = _FIRST_PAUSE
        try:
            while not connection.is_over:
                try:
                    await connection.ask(lambda client: self._subscribed(client, uri, agreed))
                except Exception as error:
                    if not agreed.done():
                        agreed.set_exception(error)
                        return
                    logger.info("a subscription at a server ended: %s", type(error).__name__)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE)
        finally:
            agreed.cancel()

    async def _subscribed(self, client: Client, uri: str, agreed: asyncio.Future[None]) -> None:
        from mcp.shared.subscriptions import ResourceUpdated
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            async with client.listen(resource_subscriptions=[uri]) as changes:
                _settle(agreed)
                async for change in changes:
                    if isinstance(change, ResourceUpdated):
                        self._on_update(change.uri)
            return
        await _legacy(client, "subscribe_resource", uri)
        _settle(agreed)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            if self._connection is not None:
                # In a task: this one is being cancelled.
                leaving = asyncio.ensure_future(_legacy(client, "unsubscribe_resource", uri))
                leaving.add_done_callback(_retrieve)


async def _legacy(client: Client, method: str, uri: str) -> None:
    with warnings.catch_warnings():
        # The SDK warns that the stateless protocol has other means; this is the older one.
        warnings.simplefilter("ignore")
        pending: Any = getattr(client.session, method)(uri)
    await pending


def _settle(agreed: asyncio.Future[None]) -> None:
    if not agreed.done():
        agreed.set_result(None)


def _retrieve(done: asyncio.Future[None]) -> None:
    """Keep asyncio from logging what nobody waits for."""
    if not done.cancelled():
        done.exception()
