"""List-changed notifications for MCP clients, and their log levels."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, get_args

from mcp.server.connection import allowed_log_levels
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.subscriptions import event_to_notification
from mcp_types import EmptyResult, LoggingLevel
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.mcp_client.sdk_internals import connection_of
from toolcrib.transports.mcp.shared_clients import shared_client_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import ServerEvent
    from mcp_types import SetLevelRequestParams


_SUBSCRIBED: Final = "toolcrib.subscribed"


class Notifications:
    """Sends notifications to the subscribers of the stateless protocol (`subscriptions/listen`) and
    to every connection of the handshake protocol that has requested a list.
    """

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self._sessions: set[ServerSession] = set()
        self._notifications: dict[tuple[ServerSession, ServerEvent], asyncio.Task[None]] = {}
        self._subscribers: dict[str, dict[ServerSession, Callable[[], Awaitable[None]]]] = {}

    def subscribe(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Notify a connection of the handshake protocol from now on."""
        connection = connection_of(ctx)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or _SUBSCRIBED in connection.state:
            return
        session = connection.state[_SUBSCRIBED] = ctx.session
        self._sessions.add(session)
        connection.exit_stack.callback(self._sessions.discard, session)

    def is_subscribed(self, ctx: ServerRequestContext[Any, Any], uri: str) -> bool:
        """Whether a connection of the handshake protocol hears of updates of a resource."""
        session = connection_of(ctx).state.get(_SUBSCRIBED)
        return session in self._subscribers.get(uri, ())

    def add_subscriber(
        self, ctx: ServerRequestContext[Any, Any], uri: str, end: Callable[[], Awaitable[None]]
    ) -> None:
        """Notify a connection that has requested a list of updates of a resource. `end` is awaited
        when it unsubscribes, or ends.
        """
        connection = connection_of(ctx)
        session = connection.state[_SUBSCRIBED]
        self._subscribers.setdefault(uri, {})[session] = end
        connection.exit_stack.push_async_callback(self._discard, session, uri)

    async def discard_subscriber(self, ctx: ServerRequestContext[Any, Any], uri: str) -> None:
        """Notify a connection of a resource no more."""
        await self._discard(connection_of(ctx).state.get(_SUBSCRIBED), uri)

    async def _discard(self, session: ServerSession | None, uri: str) -> None:
        sessions = self._subscribers.get(uri, {})
        if session is None or session not in sessions:
            return
        end = sessions.pop(session)
        if not sessions:
            del self._subscribers[uri]
        await end()

    async def publish(self, event: ServerEvent) -> None:
        """Publish an event. An update of a resource goes to those who have subscribed to it."""
        await self._bus.publish(event)
        if isinstance(event, ResourceUpdated):
            sessions = list(self._subscribers.get(event.uri, ()))
        else:
            sessions = list(self._sessions)
        for session in sessions:
            key = session, event
            # A notification that is not sent yet covers this change too.
            if key not in self._notifications:
                task = asyncio.ensure_future(_notify(session, event))
                self._notifications[key] = task
                task.add_done_callback(lambda _, key=key: self._notifications.pop(key, None))


async def _notify(session: ServerSession, event: ServerEvent) -> None:
    await session.send_notification(event_to_notification(event, {}))


_LEAST: Final = "toolcrib.log_level"
_LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
"""From the least urgent to the most."""


async def set_level(
    ctx: ServerRequestContext[Any, Any], params: SetLevelRequestParams
) -> EmptyResult:
    """Answer `logging/setLevel`, which applies to the connection. A client of the stateless
    protocol sends a level with each request instead.
    """
    connection_of(ctx).state[_LEAST] = params.level
    client = shared_client_of(ctx)
    if client is not None:
        await client.set_log_level(params.level)
    return EmptyResult()


def wants_log(ctx: ServerRequestContext[Any, Any], level: LoggingLevel) -> bool:
    """Whether the client wants log messages of this level with this request."""
    if level not in allowed_log_levels(ctx.protocol_version, ctx.meta):
        return False
    client = shared_client_of(ctx)
    least = None if client is None else client.kept.log_level
    least = least or connection_of(ctx).state.get(_LEAST, _LEVELS[0])
    return _LEVELS.index(level) >= _LEVELS.index(least)
