"""Which log messages a client wants to have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from mcp.server.connection import allowed_log_levels
from mcp_types import EmptyResult, LoggingLevel

from toolcrib.transports.mcp.seats import connection_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import SetLevelRequestParams

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
