"""`tools/list`, made ready once for each session until its tools change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import X_MCP_HEADER_KEY
from mcp_types import INVALID_PARAMS

from toolcrib.runtime.messages import ListTools
from toolcrib.transports.mcp.offering import Offering, offering

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import PaginatedRequestParams

    from toolcrib.host_tools.definition import HostToolDefinition
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.seats import Seat, Seats
    from toolcrib.transports.mcp.telling import Telling


class Listing:
    """Answers `tools/list`, and knows what the tools promise to give."""

    def __init__(self, runtime: Runtime, seats: Seats, telling: Telling) -> None:
        self._runtime = runtime
        self._seats = seats
        self._telling = telling
        self._publishing: set[asyncio.Future[None]] = set()
        self._schemas: dict[str, tuple[HostToolDefinition, dict[str, Any] | None]] = {}
        self._followers = 0
        self._end: Callable[[], None] | None = None

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Answer one request."""
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "there is one page of tools; leave the cursor out")
        self._seats.who_asks(ctx).check("read", "tools/list")
        self._telling.hear(ctx)
        found = await self.of(await self._seats.of(ctx))
        return {"resultType": "complete", "tools": found.tools}

    async def of(self, seat: Seat) -> Offering:
        """The tools of a seat."""
        found = seat.offering
        if found is None:
            asked = ListTools(session_id=seat.session_id)
            told = await self._runtime.service.list_tools(asked, seat.who)
            found = offering(told, self._runtime.registry, seat.session_id)
            seat.offering = found
        return found

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The schema of a tool's arguments, if headers have to repeat some of them. That is looked
        for once: to walk a schema takes as long as a call.
        """
        found = self._runtime.registry.get(name)
        if found is None:
            return None
        known = self._schemas.get(name)
        if known is None or known[0] is not found:
            schema = found.parameters if X_MCP_HEADER_KEY in str(found.parameters) else None
            known = self._schemas[name] = (found, schema)
        return known[1]

    @contextmanager
    def following(self) -> Generator[None]:
        """Hear of changes for as long as somebody is served."""
        loop = asyncio.get_running_loop()

        def hear(_: object) -> None:
            # In whichever thread changes the registry, and after the sessions were told.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._changed)

        if self._end is None:
            self._end = self._runtime.registry.subscribe(hear)
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
            if self._followers == 0:
                self._end()
                self._end = None

    def _changed(self) -> None:
        for seat in self._seats:
            seat.offering = None
        publishing = asyncio.ensure_future(self._telling.publish(ToolsListChanged()))
        self._publishing.add(publishing)
        publishing.add_done_callback(self._publishing.discard)
