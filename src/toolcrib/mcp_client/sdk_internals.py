"""Every private name of the `mcp` SDK that Toolcrib uses.

The client side needs one type, for annotations only. The server side needs the connection of a
request: the SDK keeps per-connection state and clean-up there, and no public attribute of a
request leads to it; and the channel of a request, since only a channel takes the id of a request
to the client. `pyproject.toml` bounds the version of `mcp`, and
`tests/mcp_client/test_sdk_internals.py` names what a new release has changed.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.client._transport import TransportStreams as TransportStreams
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext

LIBRARY: Final = "mcp"

PRIVATE_NAMES: Final = {
    "mcp.client._transport:TransportStreams": "annotate the streams of a transport",
    "mcp.server.session:ServerSession._connection": "keep state per connection, and clean it up",
    "mcp.server.session:ServerSession._request_outbound": "choose the ids of requests to clients",
}
"""Each private name, and what Toolcrib needs it for."""


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """The connection of a request to a server. Raises `UsageError` for an SDK without it."""
    try:
        return ctx.session._connection  # pyright: ignore[reportPrivateUsage]
    except AttributeError:
        raise UsageError(
            f"{LIBRARY} {version(LIBRARY)} has no ServerSession._connection, which Toolcrib needs "
            "to keep state per connection; install the version that 'toolcrib[mcp]' requires"
        ) from None


def wrap_outbound(ctx: ServerRequestContext[Any, Any], wrap: Callable[[Any], Any]) -> None:
    """Have the handler of a request to a server send its own requests, to the client, over what
    `wrap` makes of the channel. Raises `UsageError` for an SDK without it.
    """
    session: Any = ctx.session
    try:
        session._request_outbound = wrap(session._request_outbound)
    except AttributeError:
        raise UsageError(
            f"{LIBRARY} {version(LIBRARY)} has no ServerSession._request_outbound, which Toolcrib "
            "needs on replicas; install the version that 'toolcrib[mcp]' requires"
        ) from None
