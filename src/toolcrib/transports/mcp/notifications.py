"""Word to clients that something is not what it was.

Which log messages a client wants to have.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, get_args

from mcp.server.connection import allowed_log_levels
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.subscriptions import event_to_notification
from mcp_types import EmptyResult, LoggingLevel
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.mcp_client.sdk_internals import connection_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import ServerEvent
    from mcp_types import SetLevelRequestParams


_HEARS: Final = "toolcrib.hears"


class Notifications:
    """Tells who listens (`subscriptions/listen`, the stateless protocol) and every connection of
    the handshake protocol that has asked for a list.
    """

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self._hearers: set[ServerSession] = set()
        self._telling: dict[ServerSession, asyncio.Task[None]] = {}

    def hear(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Tell this connection of changes from now on, if its protocol has no way to listen."""
        connection = connection_of(ctx)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or _HEARS in connection.state:
            return
        session = connection.state[_HEARS] = ctx.session
        self._hearers.add(session)
        connection.exit_stack.callback(self._hearers.discard, session)

    async def publish(self, event: ServerEvent) -> None:
        """Tell it. A connection of the handshake protocol hears of lists only: which resources it
        subscribed to, the author's handler knows.
        """
        await self._bus.publish(event)
        if isinstance(event, ResourceUpdated):
            return
        for session in self._hearers:
            # One that has not been read yet says as much as two.
            if session not in self._telling:
                task = asyncio.ensure_future(_tell(session, event))
                self._telling[session] = task
                task.add_done_callback(lambda _, key=session: self._telling.pop(key, None))


async def _tell(session: ServerSession, event: ServerEvent) -> None:
    await session.send_notification(event_to_notification(event, {}))


_LEAST: Final = "toolcrib.log_level"
_LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
"""From the least urgent to the most."""


async def set_level(
    ctx: ServerRequestContext[Any, Any], params: SetLevelRequestParams
) -> EmptyResult:
    """Answer `logging/setLevel`, which holds for the connection. Only the handshake protocol has
    it; a client of the stateless one names a level with each request.
    """
    connection_of(ctx).state[_LEAST] = params.level
    return EmptyResult()


def wants(ctx: ServerRequestContext[Any, Any], level: LoggingLevel) -> bool:
    """Whether the client wants messages of that level with this request."""
    if level not in allowed_log_levels(ctx.protocol_version, ctx.meta):
        return False
    least = connection_of(ctx).state.get(_LEAST, _LEVELS[0])
    return _LEVELS.index(level) >= _LEVELS.index(least)
