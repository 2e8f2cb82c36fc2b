"""`tools/call`: one governed call, with progress, approval by elicitation, and calls that wait from
an earlier connection.
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
from mcp_types import INVALID_PARAMS, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.approval.tool_names import did_you_mean
from toolcrib.errors import Refused
from toolcrib.ledger.events import ToolProgress
from toolcrib.runtime.approval_messages import ListApprovals, OneApproval
from toolcrib.runtime.approval_operations import every_approval
from toolcrib.runtime.messages import NewCall, OneSession
from toolcrib.session.questions import answered_by
from toolcrib.transports.mcp.client_sessions import (
    OPEN_STATES,
    ClientSession,
    ClientSessions,
    PendingCall,
    call_fingerprint,
    fingerprint_of,
    new_call_id,
)
from toolcrib.transports.mcp.elicitation import answer_in, shown_in
from toolcrib.transports.mcp.questions import (
    NO_FORMS,
    HeldCall,
    HeldCalls,
    ShownQuestion,
    can_answer,
    can_show_forms,
    is_stateless,
    question_in,
    responder_for,
)
from toolcrib.transports.mcp.request import HERE, McpRequest
from toolcrib.transports.mcp.results import CALL_META, call_result, meta_of, waiting_result
from toolcrib.transports.mcp.stateless import watch_of
from toolcrib.transports.mcp.task import TaskId, may_be_task

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp_types import CallToolRequestParams

    from toolcrib.runtime.approval_messages import ApprovalFacts
    from toolcrib.runtime.event_reader import SessionReader
    from toolcrib.runtime.messages import CallResult
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.elicitation import ElicitedApprovals
    from toolcrib.transports.mcp.tasks import Tasks
    from toolcrib.transports.mcp.tool_list import ToolList, ToolListHandler


def wants_progress(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client sent a progress token."""
    return progress_token_from_params(ctx.params) is not None


@asynccontextmanager
async def reported_progress(
    runtime: Runtime, request: McpRequest, client: ClientSession, call_id: str
) -> AsyncGenerator[None]:
    """Report the progress of a call that runs in the block, completely before the block ends."""
    session = await runtime.service.get_session(
        OneSession(session_id=client.session_id), client.who
    )
    reader = await runtime.service.open_reader(client.session_id, session.last_seq, client.who)
    reporting = asyncio.ensure_future(_report(reader, request, call_id))
    try:
        yield
        reader.close()
        await reporting
    finally:
        reader.close()
        reporting.cancel()


async def _report(reader: SessionReader, request: McpRequest, call_id: str) -> None:
    async for event in reader:
        if event.kind == ToolProgress.kind and event.data["call_id"] == call_id:
            data = event.data
            await request.report(data["current"], data["total"], data["message"])


class PendingCalls:
    """Finds a waiting call of the same principal with the same fingerprint, in an MCP session that
    has ended or whose client has disconnected. Only waiting calls are searched, so other calls
    cost nothing.
    """

    def __init__(self, runtime: Runtime, clients: ClientSessions) -> None:
        self._runtime = runtime
        self._clients = clients

    async def take(self, client: ClientSession, fingerprint: str) -> ClientSession | None:
        """The client session where the call waits, opened again; None when there is none."""
        service = self._runtime.service
        async for filed in every_approval(
            service.list_approvals, ListApprovals(is_all=True), client.who
        ):
            if filed.state in OPEN_STATES and fingerprint_of(filed.call_id) == fingerprint:
                client_with_call = self._idle(filed, client, fingerprint) or await self._opened(
                    filed, client
                )
                if client_with_call is not None:
                    client_with_call.waiting[fingerprint] = PendingCall(
                        filed.call_id, filed.approval_id
                    )
                    return client_with_call
        return None

    async def leave(self, client: ClientSession) -> None:
        """Close the session again; its calls go on waiting."""
        if client in self._clients:
            return
        with suppress(Refused):
            await self._runtime.ask("session.close", {"session_id": client.session_id}, client.who)

    def _idle(
        self, filed: ApprovalFacts, client: ClientSession, fingerprint: str
    ) -> ClientSession | None:
        """The open session of another connection that does not request this call now. Many clients
        disconnect without ending their session, which then stays open for a while.
        """
        for other in self._clients:
            is_theirs = (
                other.ends_with_connection and other.who == client.who and other is not client
            )
            if (
                is_theirs
                and other.session_id == filed.session_id
                and fingerprint not in other.answering
            ):
                return other
        return None

    async def _opened(self, filed: ApprovalFacts, client: ClientSession) -> ClientSession | None:
        request = OneSession(session_id=filed.session_id)
        try:
            facts = await self._runtime.service.get_session(request, client.who)
            # The owner is the store's word; the metadata could be anybody's.
            owner = facts.metadata.get("transport"), facts.owner
            if facts.state != "closed" or owner != ("mcp", client.who.name):
                return None
            again = {"session_id": filed.session_id, "capabilities": list(client.capabilities)}
            await self._runtime.ask("session.resume", again, client.who)
        except Refused:
            # Another process has the session open, or it was deleted.
            return None
        return ClientSession(filed.session_id, client.who, capabilities=client.capabilities)


CALL_ID_META: Final = "toolcrib/call_id"
"""The key in `_meta` under which a client may send a call id, new or waiting."""


class ToolCallHandler:
    """Answers `tools/call`. A failed call is a result; a refused one is an error."""

    def __init__(
        self,
        runtime: Runtime,
        clients: ClientSessions,
        tool_lists: ToolListHandler,
        approvals: ElicitedApprovals,
        tasks: Tasks,
    ) -> None:
        self._runtime = runtime
        self._clients = clients
        self._tool_lists = tool_lists
        self._approvals = approvals
        self._tasks = tasks
        tasks.answer_of = self._result
        self._pending = PendingCalls(runtime, clients)
        self._held = HeldCalls()
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
            request.is_over = True
            HERE.reset(here)

    async def _answer(self, request: McpRequest) -> HandlerResult:
        client = await self._clients.of(request.context)
        try:
            return await self._answer_at(client, request)
        except Refused as refused:
            if refused.kind != "not_found":
                raise
        # The session was closed elsewhere; the client does not know of sessions.
        self._clients.forget(request.context, client)
        return await self._answer_at(await self._clients.of(request.context), request)

    async def _answer_at(self, client: ClientSession, request: McpRequest) -> HandlerResult:
        params = request.params
        fingerprint = call_fingerprint(params.name, params.arguments or {})
        earlier = (
            await self._pending.take(client, fingerprint)
            if fingerprint in client.pending_earlier
            else None
        )
        if earlier is not None:
            return await self._answer_earlier(client, earlier, request, fingerprint)
        client.answering.add(fingerprint)
        try:
            return await self._answer_here(client, request, fingerprint)
        finally:
            client.answering.discard(fingerprint)

    async def _answer_here(
        self, client: ClientSession, request: McpRequest, fingerprint: str
    ) -> HandlerResult:
        params = request.params
        if (asked := question_in(params.request_state)) is not None:
            result = await self._go_on(client, request, asked)
            return await self._settle(client, request, result, fingerprint, None)
        shown = shown_in(params.request_state)
        if shown is None:
            call_id, answered = await self._known_id(params, client, fingerprint), None
        else:
            call_id, answered = shown.call_id, shown.approval_id
            if self._approvals.may_ask(request.context, client):
                await self._approvals.decide(client, shown, answer_in(params))
        if call_id is None:
            new_id = new_call_id(fingerprint)
            result = await self._run(client, request, new_id, is_new_id=True)
        else:
            result = await self._run(client, request, call_id)
        if (
            not isinstance(result, InputRequiredResult | TaskId)
            and result.status == "waiting"
            and client.ends_with_connection
            and fingerprint not in client.waiting
        ):
            earlier = await self._pending.take(client, fingerprint)
            if earlier is not None:
                withdrawn = {"session_id": client.session_id, "call_id": result.call_id}
                await self._runtime.ask("tools.cancel", withdrawn, client.who)
                return await self._answer_earlier(client, earlier, request, fingerprint)
        return await self._settle(client, request, result, fingerprint, answered)

    async def _answer_earlier(
        self, client: ClientSession, earlier: ClientSession, request: McpRequest, fingerprint: str
    ) -> HandlerResult:
        """Continue with the call that has waited longer, so that nobody is asked twice."""
        try:
            return await self._answer_at(earlier, request)
        finally:
            still_waits = fingerprint in earlier.waiting
            (client.pending_earlier.add if still_waits else client.pending_earlier.discard)(
                fingerprint
            )
            await self._pending.leave(earlier)

    async def _settle(
        self,
        client: ClientSession,
        request: McpRequest,
        result: CallResult | InputRequiredResult | TaskId,
        fingerprint: str,
        answered: str | None,
    ) -> HandlerResult:
        """Have a waiting call decided if the client can, and return the result, the form of a call
        that asks, or the task that it has become.
        """
        while not isinstance(result, InputRequiredResult | TaskId) and result.status == "waiting":
            assert result.approval_id is not None, "a waiting call has an approval request"
            client.waiting[fingerprint] = PendingCall(result.call_id, result.approval_id)
            if may_be_task(request.context):
                result = TaskId(client.session_id, result.call_id)
                break
            if result.approval_id == answered:
                return waiting_result(result)
            answered = result.approval_id
            question = await self._ask(client, request, result)
            if question is not None:
                return question
            result = await self._run(client, request, result.call_id)
        if isinstance(result, InputRequiredResult):
            return result
        if isinstance(result, TaskId):
            return await self._tasks.created(request.context, client, result)
        client.waiting.pop(fingerprint, None)
        if result.failure is not None and result.failure.kind == "not_found":
            self._tasks.check_needed(request.context, result.tool)
        return self._result(result, request, await self._tool_lists.of(client))

    async def _known_id(
        self, params: CallToolRequestParams, client: ClientSession, fingerprint: str
    ) -> str | None:
        """The call id that the client sent, or that of the same call if it waits."""
        sent_id = params.meta.get(CALL_ID_META) if params.meta else None
        if isinstance(sent_id, str):
            return sent_id
        if fingerprint not in client.waiting and client.is_shared:
            await self._clients.find_pending(client)
        known = client.waiting.get(fingerprint)
        if known is not None:
            request = OneApproval(approval_id=known.approval_id)
            facts = await self._runtime.service.get_approval(request, client.who)
            if facts.state in OPEN_STATES:
                return known.call_id
        return None

    async def _ask(
        self, client: ClientSession, request: McpRequest, result: CallResult
    ) -> HandlerResult | None:
        """Ask the person at the client; None when decided, else the answer to send."""
        ctx, approvals = request.context, self._approvals
        assert result.approval_id is not None
        if not approvals.may_ask(ctx, client):
            return waiting_result(result)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            question = await approvals.input_required(client, result.approval_id)
            return question or waiting_result(result)
        is_decided = await approvals.elicit(ctx, client, result.approval_id)
        return None if is_decided else waiting_result(result)

    async def _run(
        self, client: ClientSession, request: McpRequest, call_id: str, *, is_new_id: bool = False
    ) -> CallResult | InputRequiredResult | TaskId:
        """Make a call, or go on with it. A form, when it asks a client that comes back; a task,
        when it takes long for a client that takes tasks.
        """
        params, runtime = request.params, self._runtime
        body: dict[str, Any] = {
            "session_id": client.session_id,
            "name": params.name,
            "arguments": params.arguments or {},
            "call_id": call_id,
        }
        call = NewCall(**body) if is_new_id else body
        ctx = request.context
        has_forms = can_show_forms(ctx)
        if (is_stateless(ctx) and can_answer(ctx)) or may_be_task(ctx):
            fingerprint = call_fingerprint(params.name, params.arguments or {})
            request.returning = held = HeldCall(client, call_id, fingerprint, request)
            with answered_by(held if has_forms else NO_FORMS):
                running = asyncio.ensure_future(runtime.ask("tools.call", call, client.who))
            self._held.begin(held, running)
            return await self._advance(held, request)
        with answered_by(responder_for(ctx, client)):
            return await self._run_here(client, request, call, call_id)

    async def _run_here(
        self, client: ClientSession, request: McpRequest, call: Any, call_id: str
    ) -> CallResult:
        """Make a call that ends with its request."""
        runtime = self._runtime
        watch = watch_of(request.context)
        if watch is not None:
            # Run in the task of the request: with a task per call, the calls of many clients are
            # all in progress at once, and every garbage collection visits them.
            watch.on_leave = partial(self._cancel, client, call_id)
            try:
                return await runtime.ask_inline("tools.call", call, client.who)
            finally:
                watch.on_leave = None
        try:
            if not wants_progress(request.context):
                return await runtime.ask("tools.call", call, client.who)
            async with reported_progress(runtime, request, client, call_id):
                return await runtime.ask("tools.call", call, client.who)
        except asyncio.CancelledError:
            self._cancel(client, call_id)
            raise

    async def _advance(
        self, held: HeldCall, request: McpRequest
    ) -> CallResult | InputRequiredResult | TaskId:
        """Wait for a held call to end, to ask, or to become a task. A client that leaves meanwhile
        cancels it.
        """
        held.latest = request
        watch = watch_of(request.context)
        leave = partial(self._cancel, held.client, held.call_id)
        if watch is not None:
            watch.on_leave = leave
        try:
            if not wants_progress(request.context):
                return await self._step(held, request)
            async with reported_progress(self._runtime, request, held.client, held.call_id):
                return await self._step(held, request)
        except asyncio.CancelledError:
            leave()
            raise
        finally:
            if watch is not None:
                watch.on_leave = None

    async def _step(
        self, held: HeldCall, request: McpRequest
    ) -> CallResult | InputRequiredResult | TaskId:
        if may_be_task(request.context):
            return await self._tasks.advance(held, request)
        return await held.advance()

    async def _go_on(
        self, client: ClientSession, request: McpRequest, asked: ShownQuestion
    ) -> CallResult | InputRequiredResult | TaskId:
        """Go on with the call whose question the client was shown. What came of one that is over
        is given again.
        """
        held = self._held.answered(client, asked, request.params)
        if held is None:
            return await self._run(client, request, asked.call_id)
        return await self._advance(held, request)

    def _cancel(self, client: ClientSession, call_id: str) -> None:
        """Cancel the call of a cancelled request, without awaiting in its cancelled task."""
        body = {"session_id": client.session_id, "call_id": call_id}
        cancelling = asyncio.ensure_future(self._runtime.ask("tools.cancel", body, client.who))
        self._cancelling.add(cancelling)
        cancelling.add_done_callback(self._cancelled)

    def _cancelled(self, done: asyncio.Future[Any]) -> None:
        self._cancelling.discard(done)
        if not done.cancelled():
            # A session that was closed meanwhile has ended its calls.
            done.exception()

    def _result(
        self, result: CallResult, request: McpRequest, tool_list: ToolList
    ) -> HandlerResult:
        failure = result.failure
        if failure is not None and failure.kind == "not_found":
            facts = {**meta_of(result), "failure": asdict(failure)}
            names = [tool["name"] for tool in tool_list.tools]
            text = f"Unknown tool: {result.tool[:128]}{did_you_mean(result.tool, names)}"
            raise MCPError(INVALID_PARAMS, text, {CALL_META: facts})
        reply = request.reply
        if isinstance(reply, MCPError):
            if result.status == "failed":
                raise reply
        elif reply is not None and result.status == "completed":
            return reply
        is_mounted = result.tool in tool_list.mounted
        return call_result(result, tool_list.outputs.get(result.tool), is_mounted=is_mounted)
