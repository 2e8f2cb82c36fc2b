"""`tools/call`: one call, governed like every other.

What a running call says of its progress, for the client that asked to hear of it.

Ids of calls from which it shows what was called, so that a retry finds the call that waits.

Calls that wait from an earlier connection: a client that comes back finds them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.errors import Refused
from toolcrib.ledger.events import ToolProgress
from toolcrib.runtime.messages import ListApprovals, OneApproval, OneSession
from toolcrib.transports.mcp.client_sessions import (
    OPEN_STATES,
    ClientSession,
    ClientSessions,
    PendingCall,
    call_fingerprint,
    fingerprint_of,
    new_call_id,
)
from toolcrib.transports.mcp.elicitation import answer_in, asked_in
from toolcrib.transports.mcp.request import HERE, McpRequest
from toolcrib.transports.mcp.results import CALL_META, meta_of, told, told_waiting
from toolcrib.transports.mcp.stateless import ClientWatch, watch_of

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp_types import CallToolRequestParams

    from toolcrib.runtime.event_reader import EventReader
    from toolcrib.runtime.messages import ApprovalFacts, CallResult
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.elicitation import ElicitedApprovals
    from toolcrib.transports.mcp.tool_list import ToolList, ToolListHandler


def wants_progress(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client gave a token to tell progress by."""
    return progress_token_from_params(ctx.params) is not None


@asynccontextmanager
async def told_progress(
    runtime: Runtime, ctx: ServerRequestContext[Any, Any], seat: ClientSession, call_id: str
) -> AsyncGenerator[None]:
    """Tell the progress of a call that is made in this block; all of it, before the block ends."""
    session = await runtime.service.get_session(OneSession(session_id=seat.session_id), seat.who)
    reader = runtime.service.follow(seat.session_id, session.last_seq)
    telling = asyncio.ensure_future(_tell(reader, ctx, call_id))
    try:
        yield
        reader.close()
        await telling
    finally:
        reader.close()
        telling.cancel()


async def _tell(reader: EventReader, ctx: ServerRequestContext[Any, Any], call_id: str) -> None:
    told = float("-inf")
    async for event in reader:
        if event.kind != ToolProgress.kind or event.data["call_id"] != call_id:
            continue
        data = event.data
        # The protocol wants numbers that grow.
        if data["current"] > told:
            told = data["current"]
            await ctx.session.report_progress(told, data["total"], data["message"])


class PendingCalls:
    """Looks through the inbox for the same call of the same principal, in a session of MCP that is
    over, or whose client has gone without a word. Only what waits is ever looked for, so that
    other calls cost nothing.
    """

    def __init__(self, runtime: Runtime, seats: ClientSessions) -> None:
        self._runtime = runtime
        self._seats = seats

    async def take(self, seat: ClientSession, sign: str) -> ClientSession | None:
        """The seat where the call waits, its session open again; None when there is none."""
        service = self._runtime.service
        for each in (await service.list_approvals(ListApprovals(is_all=True), seat.who)).approvals:
            if each.state in OPEN_STATES and fingerprint_of(each.call_id) == sign:
                found = self._idle(each, seat, sign) or await self._opened(each, seat)
                if found is not None:
                    found.waiting[sign] = PendingCall(each.call_id, each.approval_id)
                    return found
        return None

    async def leave(self, seat: ClientSession) -> None:
        """Let go of the session; what waits in it goes on waiting."""
        if seat in self._seats:
            return
        with suppress(Refused):
            await self._runtime.ask("session.close", {"session_id": seat.session_id}, seat.who)

    def _idle(self, filed: ApprovalFacts, seat: ClientSession, sign: str) -> ClientSession | None:
        """The seat of another connection that nobody asks about this call at now. Many clients
        leave without ending their session, which then stays for a while.
        """
        for other in self._seats:
            is_theirs = other.is_passing and other.who == seat.who and other is not seat
            if is_theirs and other.session_id == filed.session_id and sign not in other.answering:
                return other
        return None

    async def _opened(self, filed: ApprovalFacts, seat: ClientSession) -> ClientSession | None:
        asked = OneSession(session_id=filed.session_id)
        try:
            facts = await self._runtime.service.get_session(asked, seat.who)
            owner = facts.metadata.get("transport"), facts.metadata.get("principal")
            if facts.state != "closed" or owner != ("mcp", seat.who.name):
                return None
            again = {"session_id": filed.session_id, "capabilities": list(seat.abilities)}
            await self._runtime.ask("session.resume", again, seat.who)
        except Refused:
            # Another process works in it, or somebody deleted it.
            return None
        return ClientSession(filed.session_id, seat.who, abilities=seat.abilities)


CALL_ID_META: Final = "toolcrib/call_id"
"""Where a client may name its call in `_meta`, or the one that waits."""


class ToolCallHandler:
    """Answers `tools/call`. Failures are results; what is not done at all is an error."""

    def __init__(
        self,
        runtime: Runtime,
        seats: ClientSessions,
        listing: ToolListHandler,
        approving: ElicitedApprovals,
    ) -> None:
        self._runtime = runtime
        self._seats = seats
        self._listing = listing
        self._approving = approving
        self._earlier = PendingCalls(runtime, seats)
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

    async def _answer_at(self, seat: ClientSession, request: McpRequest) -> HandlerResult:
        params = request.params
        sign = call_fingerprint(params.name, params.arguments or {})
        earlier = await self._earlier.take(seat, sign) if sign in seat.earlier else None
        if earlier is not None:
            return await self._answer_earlier(seat, earlier, request, sign)
        seat.answering.add(sign)
        try:
            return await self._answer_here(seat, request, sign)
        finally:
            seat.answering.discard(sign)

    async def _answer_here(
        self, seat: ClientSession, request: McpRequest, sign: str
    ) -> HandlerResult:
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
        self, seat: ClientSession, earlier: ClientSession, request: McpRequest, sign: str
    ) -> HandlerResult:
        """Go on with the call that has waited for longer; nobody need be asked a second time."""
        try:
            return await self._answer_at(earlier, request)
        finally:
            still_waits = sign in earlier.waiting
            (seat.earlier.add if still_waits else seat.earlier.discard)(sign)
            await self._earlier.leave(earlier)

    async def _settle(
        self,
        seat: ClientSession,
        request: McpRequest,
        result: CallResult,
        sign: str,
        answered: str | None,
    ) -> HandlerResult:
        """Have what waits decided if that can be, and say what came of it."""
        while result.status == "waiting":
            assert result.approval_id is not None, "what waits, waits for an approval"
            seat.waiting[sign] = PendingCall(result.call_id, result.approval_id)
            if result.approval_id == answered:
                return told_waiting(result)
            answered = result.approval_id
            question = await self._ask(seat, request, result)
            if question is not None:
                return question
            result = await self._run(seat, request, result.call_id)
        seat.waiting.pop(sign, None)
        return self._told(result, request, await self._listing.of(seat))

    async def _call_id(self, params: CallToolRequestParams, seat: ClientSession, sign: str) -> str:
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
        self, seat: ClientSession, request: McpRequest, result: CallResult
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

    async def _run(self, seat: ClientSession, request: McpRequest, call_id: str) -> CallResult:
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

    async def _run_here(
        self, watch: ClientWatch, seat: ClientSession, asked: dict[str, Any]
    ) -> CallResult:
        """Run the call in the task of its request. With tasks of their own, the calls of many
        clients are all half done at once, and the garbage collector goes through them every time.
        """
        watch.on_leave = partial(self._cancel, seat, asked["call_id"])
        try:
            return await self._runtime.ask_inline("tools.call", asked, seat.who)
        finally:
            watch.on_leave = None

    def _cancel(self, seat: ClientSession, call_id: str) -> None:
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

    def _told(self, result: CallResult, request: McpRequest, offering: ToolList) -> HandlerResult:
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
