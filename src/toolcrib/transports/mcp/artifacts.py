"""Results that were too long to be sent whole, as resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ListResourcesResult, ReadResourceResult, TextResourceContents

from toolcrib.runtime.asking import ask_store
from toolcrib.transports.mcp.results import ARTIFACTS

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp_types import PaginatedRequestParams, ReadResourceRequestParams

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.seats import Seats

    ReadResource = Callable[
        ["ServerRequestContext[Any, Any]", ReadResourceRequestParams], Awaitable[HandlerResult]
    ]


class ArtifactReader:
    """Answers `resources/read` for artifacts of the client's own session, and passes on the rest
    to the author's handler.
    """

    def __init__(self, runtime: Runtime, seats: Seats) -> None:
        self._runtime = runtime
        self._seats = seats
        self.others: ReadResource | None = None

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams
    ) -> HandlerResult:
        """Answer one request."""
        if params.uri.startswith(ARTIFACTS):
            text = await self._read(ctx, params.uri.removeprefix(ARTIFACTS))
            if text is not None:
                found = TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)
                return ReadResourceResult(contents=[found])
        elif self.others is not None:
            return await self.others(ctx, params)
        raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": params.uri})

    async def _read(self, ctx: ServerRequestContext[Any, Any], artifact_id: str) -> str | None:
        store, seat = self._runtime.store, await self._seats.of(ctx)
        seat.who.check("read", "resources/read")
        return await ask_store(store, store.artifact, seat.session_id, artifact_id)


async def no_resources(
    ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
) -> ListResourcesResult:
    """Artifacts are found by the links in results, so that there is nothing to list."""
    return ListResourcesResult(resources=[])
