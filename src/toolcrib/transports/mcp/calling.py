"""`tools/call`: one call, governed like every other."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.errors import Refused
from toolcrib.runtime.messages import OneApproval
from toolcrib.transports.mcp.approving import answer_in, asked_in
from toolcrib.transports.mcp.call_ids import mark, new_call_id
from toolcrib.transports.mcp.earlier import Earlier
from toolcrib.transports.mcp.progress import told_progress, wants_progress
from toolcrib.transports.mcp.request import HERE, McpRequest
from toolcrib.transports.mcp.results import CALL_META, meta_of, told, told_waiting
from toolcrib.transports.mcp.seats import OPEN_STATES, Seat, Seats, Waiting
from toolcrib.transports.mcp.stateless import Watch, watch_of

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp_types import CallToolRequestParams

    from toolcrib.runtime.messages import CallResult
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.approving import Approving
    from toolcrib.transports.mcp.listing import Listing
    from toolcrib.transports.mcp.offering import Offering

CALL_ID_META: Final = "toolcrib/call_id"
"""Where a client may name its call in `_meta`, or the one that waits."""


class Calling:
    """Answers `tools/call`. Failures are results; what is not done at all is an error."""

    def __init__(
        self, runtime: Runtime, seats: Seats, listing: Listing, approving: Approving
    ) -> None:
        self._runtime = runtime
        self._seats = seats
        self._listing = listing
        self._approving = approving
        self._earlier = Earlier(runtime, seats)
        self._cancelling: set[asyncio.Future[Any]] = set()

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> HandlerResult:
        """Answer one request."""
        request = McpRequest(ctx, params)
        here = HERE.set(request)
        try:
            return await self._answer(request)
        finally:
            HERE.reset(here)

    async def _answer(self, request: McpRequest) -> HandlerResult:
        seat = await self._seats.of(request.context)
        try:
            return await self._answer_at(seat, request)
        except Refused as refused:
            if refused.kind != "not_found":
                raise
        # Somebody closed the session; the client need not know that there was one.
        self._seats.forget(request.context, seat)
        return await self._answer_at(await self._seats.of(request.context), request)

    async def _answer_at(self, seat: Seat, request: McpRequest) -> HandlerResult:
        params = request.params
        sign = mark(params.name, params.arguments or {})
        earlier = await self._earlier.take(seat, sign) if sign in seat.earlier else None
        if earlier is not None:
            return await self._answer_earlier(seat, earlier, request, sign)
        seat.answering.add(sign)
        try:
            return await self._answer_here(seat, request, sign)
        finally:
            seat.answering.discard(sign)

    async def _answer_here(self, seat: Seat, request: McpRequest, sign: str) -> HandlerResult:
        params = request.params
        asked = asked_in(params.request_state)
        if asked is None:
            call_id, answered = await self._call_id(params, seat, sign), None
        else:
            call_id, answered = asked.call_id, asked.approval_id
            if self._approving.may_ask(request.context, seat):
                await self._approving.decide(seat, asked, answer_in(params))
        result = await self._run(seat, request, call_id)
        if result.status == "waiting" and seat.is_passing and sign not in seat.waiting:
            earlier = await self._earlier.take(seat, sign)
            if earlier is not None:
                withdrawn = {"session_id": seat.session_id, "call_id": result.call_id}
                await self._runtime.ask("tools.cancel", withdrawn, seat.who)
                return await self._answer_earlier(seat, earlier, request, sign)
        return await self._settle(seat, request, result, sign, answered)

    async def _answer_earlier(
        self, seat: Seat, earlier: Seat, request: McpRequest, sign: str
    ) -> HandlerResult:
        """Go on with the call that has waited for longer; nobody need be asked a second time."""
        try:
            return await self._answer_at(earlier, request)
        finally:
            still_waits = sign in earlier.waiting
            (seat.earlier.add if still_waits else seat.earlier.discard)(sign)
            await self._earlier.leave(earlier)

    async def _settle(
        self, seat: Seat, request: McpRequest, result: CallResult, sign: str, answered: str | None
    ) -> HandlerResult:
        """Have what waits decided if that can be, and say what came of it."""
        while result.status == "waiting":
            assert result.approval_id is not None, "what waits, waits for an approval"
            seat.waiting[sign] = Waiting(result.call_id, result.approval_id)
            if result.approval_id == answered:
                return told_waiting(result)
            answered = result.approval_id
            question = await self._ask(seat, request, result)
            if question is not None:
                return question
            result = await self._run(seat, request, result.call_id)
        seat.waiting.pop(sign, None)
        return self._told(result, request, await self._listing.of(seat))

    async def _call_id(self, params: CallToolRequestParams, seat: Seat, sign: str) -> str:
        """That of the call that the client names, or of the same call if it waits."""
        given = params.meta.get(CALL_ID_META) if params.meta else None
        if isinstance(given, str):
            return given
        known = seat.waiting.get(sign)
        if known is not None:
            asked = OneApproval(approval_id=known.approval_id)
            facts = await self._runtime.service.get_approval(asked, seat.who)
            if facts.state in OPEN_STATES:
                return known.call_id
        return new_call_id(sign)

    async def _ask(
        self, seat: Seat, request: McpRequest, result: CallResult
    ) -> HandlerResult | None:
        """Have the person at the client decide; None when somebody has, else what to answer."""
        ctx, approving = request.context, self._approving
        assert result.approval_id is not None
        if not approving.may_ask(ctx, seat):
            return told_waiting(result)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            question = await approving.input_required(seat, result.approval_id)
            return question or told_waiting(result)
        is_decided = await approving.elicit(ctx, seat, result.approval_id)
        return None if is_decided else told_waiting(result)

    async def _run(self, seat: Seat, request: McpRequest, call_id: str) -> CallResult:
        params, runtime = request.params, self._runtime
        asked = {
            "session_id": seat.session_id,
            "name": params.name,
            "arguments": params.arguments or {},
            "call_id": call_id,
        }
        watch = watch_of(request.context)
        if watch is not None:
            return await self._run_here(watch, seat, asked)
        try:
            if not wants_progress(request.context):
                return await runtime.ask("tools.call", asked, seat.who)
            async with told_progress(runtime, request.context, seat, call_id):
                return await runtime.ask("tools.call", asked, seat.who)
        except asyncio.CancelledError:
            self._cancel(seat, call_id)
            raise

    async def _run_here(self, watch: Watch, seat: Seat, asked: dict[str, Any]) -> CallResult:
        """Run the call in the task of its request. With tasks of their own, the calls of many
        clients are all half done at once, and the garbage collector goes through them every time.
        """
        watch.on_leave = partial(self._cancel, seat, asked["call_id"])
        try:
            return await self._runtime.ask_here("tools.call", asked, seat.who)
        finally:
            watch.on_leave = None

    def _cancel(self, seat: Seat, call_id: str) -> None:
        """Stop a call that the client gave up. Not awaited: whoever is cancelled cannot wait."""
        asked = {"session_id": seat.session_id, "call_id": call_id}
        cancelling = asyncio.ensure_future(self._runtime.ask("tools.cancel", asked, seat.who))
        self._cancelling.add(cancelling)
        cancelling.add_done_callback(self._cancelled)

    def _cancelled(self, done: asyncio.Future[Any]) -> None:
        self._cancelling.discard(done)
        if not done.cancelled():
            # A session that was closed meanwhile has ended its calls itself.
            done.exception()

    def _told(self, result: CallResult, request: McpRequest, offering: Offering) -> HandlerResult:
        failure = result.failure
        if failure is not None and failure.kind == "not_found":
            facts = {**meta_of(result), "failure": asdict(failure)}
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {result.tool[:128]}", {CALL_META: facts})
        reply = request.reply
        if isinstance(reply, MCPError):
            if result.status == "failed":
                raise reply
        elif reply is not None and result.status == "completed":
            return reply
        is_mounted = result.tool in offering.mounted
        return told(result, offering.outputs.get(result.tool), is_mounted=is_mounted)
