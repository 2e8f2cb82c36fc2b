"""Requests to MCP clients whose ids name the replica that asks.

The SDK counts the requests of each connection, so that those of two replicas to one client have the
same ids. With ids that name the replica, an answer finds its way from any replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from toolcrib.mcp_client.sdk_internals import connection_of, wrap_outbound
from toolcrib.transports.mcp.shared_clients import shared_client_of

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.shared.dispatcher import CallOptions

    from toolcrib.transports.mcp.shared_clients import SharedClient


async def name_requests(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware that names the requests which a handler sends to a client of several replicas."""
    client = shared_client_of(ctx)
    if client is not None:
        wrap_outbound(ctx, lambda channel: _NamedRequests(channel, client))
        connection = connection_of(ctx)
        if not isinstance(connection.outbound, _NamedRequests):
            connection.outbound = _NamedRequests(connection.outbound, client)
    return await call_next(ctx)


class _NamedRequests:
    """A channel of the SDK to a client."""

    def __init__(self, channel: Any, client: SharedClient) -> None:
        self._channel = channel
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        with self._client.open_request() as request_id:
            named = cast("CallOptions", {"request_id": request_id, **(opts or {})})
            return await self._channel.send_raw_request(method, params, named)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._channel.notify(method, params, opts)
