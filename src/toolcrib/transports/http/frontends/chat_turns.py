"""The turns of the chats of front ends: begun, continued after decisions, followed again.

A turn belongs to the session, not to the request that began it: when the client disconnects, the
turn goes on, and another request can follow it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.errors import Refused
from toolcrib.ledger.events import ApprovalRequested
from toolcrib.ledger.prompt_events import PromptAnswered, PromptStopped
from toolcrib.runtime.approval_operations import may_approve
from toolcrib.transports.http.frontends.chat_request import session_of
from toolcrib.transports.http.frontends.client_calls import CallsElsewhere, FrontendCalls
from toolcrib.transports.http.frontends.pictures import with_pictures
from toolcrib.transports.http.frontends.running_turn import (
    RunningTurn,
    StreamEnd,
    begun,
    end_task,
    while_followed,
)
from toolcrib.transports.http.frontends.turn_parts import (
    ApprovalShown,
    ClientCallsWait,
    TurnBegun,
    TurnOver,
    TurnPart,
)
from toolcrib.transports.http.frontends.turn_reader import TurnReader

if TYPE_CHECKING:
    from toolcrib.ledger.events import Event
    from toolcrib.runtime.messages import PromptResult, SessionFacts
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.prompt_operations import PromptStart
    from toolcrib.runtime.runtime import PrincipalOperations, Runtime
    from toolcrib.runtime.session_events import SessionEvents
    from toolcrib.transports.http.frontends.chat_request import (
        ChatDecision,
        ChatMessage,
        ChatRequest,
    )

Quiet = Literal["quiet"]


@dataclass(frozen=True, slots=True)
class _Followed:
    """A turn as one request follows it: its events after the record `after`. The reader has read
    what the front end knows already.
    """

    session_id: str
    begin: Callable[[], Awaitable[RunningTurn]]
    reader: TurnReader
    after: int


class ChatTurns:
    """The turns of one principal's chats, over the operations that every transport has."""

    def __init__(
        self, runtime: Runtime, who: Principal, running: dict[str, RunningTurn], heartbeat: float
    ) -> None:
        self._runtime = runtime
        self._who = who
        self._running = running
        self._heartbeat = heartbeat
        self._operations: PrincipalOperations = runtime.as_principal(who)

    async def answer(
        self, request: ChatRequest, end: StreamEnd
    ) -> AsyncGenerator[TurnPart | Quiet]:
        """The parts of the turn that a request begins or continues. Raises `Refused`."""
        followed = await self._begin(request)
        async with aclosing(self._follow(followed, end)) as parts:
            async for part in parts:
                yield part

    async def again(self, chat_id: str, end: StreamEnd) -> AsyncGenerator[TurnPart | Quiet] | None:
        """All parts of the turn that runs, from its start; None when none runs."""
        session_id = await session_of(self._runtime, chat_id, self._who)
        self._who.check(("caller", "auditor"), "following a chat")
        await self._runtime.ask("session.get", {"session_id": session_id}, self._who)
        running = await self._running_here(session_id)
        begin = begun(running) if running else await self._begun_elsewhere(session_id)
        if begin is None:
            return None
        reader, after = await self._from_start(session_id)
        return self._follow(_Followed(session_id, begin, reader, after), end)

    async def _begun_elsewhere(
        self, session_id: str
    ) -> Callable[[], Awaitable[RunningTurn]] | None:
        """A function that begins to wait for the turn of a session, whichever replica of a shared
        store runs it; None when none runs, or it waits for a decision of this principal.
        """
        turns = self._runtime.service.queued_turns
        turn = None if turns is None else await turns.going_on(session_id)
        if turns is None or turn is None:
            return None
        if turn.state == "waiting" and await self._may_decide_any(turn.pending):
            return None

        async def begin() -> RunningTurn:
            wait = partial(turns.awaited, turn)
            until = self._until_decidable(partial(wait, waits=False), partial(wait, waits=True))
            is_ours = await self._runtime.service.has_front_end(session_id)
            return RunningTurn(asyncio.ensure_future(until), CallsElsewhere(), is_ours)

        return begin

    async def _from_start(self, session_id: str) -> tuple[TurnReader, int]:
        """A reader of the turn that runs, and the record before it. One that has yet to begin comes
        after all that is recorded.
        """
        start = await self._start(session_id)
        last_seq = (await self._operations.get_session(session_id)).last_seq
        if start is None:
            return TurnReader(), last_seq
        async with self._operations.events(session_id, start.seq) as events:
            while events.seq < last_seq and (event := await _next(events)) is not None:
                match event:
                    case PromptAnswered(turn=turn) | PromptStopped(turn=turn, outcome="cancelled"):
                        if turn == start.turn:
                            return TurnReader(), last_seq
                    case _:
                        pass
        return TurnReader(start.turn), start.seq - 1

    async def _begin(self, request: ChatRequest) -> _Followed:
        session_id = await session_of(self._runtime, request.chat_id, self._who)
        running = await self._running_here(session_id)
        is_running = False
        if request.message is not None and not (running and running.calls.waiting):
            is_running = await self._is_running(session_id, request.message)
        facts = await self._open(session_id, request)
        if request.is_retry:
            await self._check_unanswered(session_id, facts.last_seq)
        if request.message is not None:
            if running is not None and running.calls.waiting:
                # A new message instead of the results: the turn that waits for them is given up.
                await self._operations.cancel_prompt(session_id)
                await asyncio.wait([running.result])
            send = self._sending(session_id, request)
            reader, after = TurnReader(), facts.last_seq
            if is_running:
                reader, after = await self._from_start(session_id)
            return _Followed(session_id, send, reader, after)
        await self._decide(session_id, request.decisions)
        if running is not None:
            return await self._continued(session_id, request, running)
        if not facts.has_open_prompt:
            raise Refused(
                "conflict",
                "nothing of this chat waits to go on; send a new message of the user",
            )
        # Who brings nothing to a turn that runs comes back to it, and gets all of it.
        brings = bool(request.decisions or request.results) or not facts.is_busy
        reader, after = await self._known(session_id, facts.last_seq if brings else None)

        async def resume() -> PromptResult:
            return await self._resumed(session_id, waits=False)

        calls = FrontendCalls(request.results)
        begin = self._work(session_id, resume, calls, has_tools=bool(request.tools))
        return _Followed(session_id, begin, reader, after)

    async def _running_here(self, session_id: str) -> RunningTurn | None:
        """The turn that a request to this replica began, unless the front end has gone on with its
        calls at another one since.
        """
        running = self._running.get(session_id)
        if running is None or not running.has_tools:
            return running
        if await self._runtime.service.is_attached(session_id, running.calls):
            return running
        if self._running.get(session_id) is running:
            del self._running[session_id]
        return None

    async def _is_running(self, session_id: str, message: ChatMessage) -> bool:
        """Whether a turn of a shared store runs that this message began. Raises `Refused` (busy)
        for any other: whoever is refused does not become the client that runs its calls.
        """
        turns = self._runtime.service.queued_turns
        if turns is None:
            return False
        return await turns.check_free(session_id, message.idempotency_key, self._who)

    async def _check_unanswered(self, session_id: str, last_seq: int) -> None:
        """Raise `Refused` (invalid) when the last prompt of a chat has its answer."""
        start = await self._start(session_id)
        if start is None:
            return
        async with self._operations.events(session_id, start.seq) as events:
            while events.seq < last_seq and (event := await _next(events)) is not None:
                if isinstance(event, PromptAnswered) and event.turn == start.turn:
                    raise Refused(
                        "invalid",
                        "an answer cannot be regenerated: the session's ledger keeps every turn; "
                        "send the message again as a new one",
                    )

    async def _open(self, session_id: str, request: ChatRequest) -> SessionFacts:
        # The tools of a turn that runs are those that it began with.
        tools = () if session_id in self._running else request.tools
        if request.message is not None:
            return await self._operations.open_session(session_id, client_tools=tools)
        # A decision about a session that is not there must not make one.
        return await self._operations.resume_session(session_id, client_tools=tools)

    async def _decide(self, session_id: str, decisions: tuple[ChatDecision, ...]) -> None:
        """Apply decisions. One about another session is refused; one about a request that was
        decided before does nothing.
        """
        pending: list[ChatDecision] = []
        for decision in decisions:
            approval = await self._operations.get_approval(decision.approval_id)
            if approval.session_id != session_id:
                raise Refused(
                    "not_found",
                    f"this chat has no approval request {decision.approval_id[:128]!r}",
                )
            if approval.state == "pending":
                pending.append(decision)
        for decision in pending:
            await self._operations.decide(
                decision.approval_id,
                "approve" if decision.is_approved else "deny",
                digest=decision.digest,
                reason=None if decision.is_approved else decision.reason,
            )

    async def _continued(
        self, session_id: str, request: ChatRequest, running: RunningTurn
    ) -> _Followed:
        """The turn that runs, from where it began to wait for the front end."""
        reader, after = await self._known(session_id, running.seen or None)
        running.calls.bring(request.results)
        return _Followed(session_id, begun(running), reader, after)

    async def _known(self, session_id: str, up_to: int | None) -> tuple[TurnReader, int]:
        """A reader that has read the turn as far as the front end was shown it."""
        start = await self._start(session_id)
        if start is None:
            return TurnReader(), up_to or 0
        reader, after = TurnReader(start.turn), start.seq - 1
        if up_to is None:
            return reader, after
        async with self._operations.events(session_id, after) as events:
            while events.seq < up_to and (event := await _next(events)) is not None:
                reader.skip(event)
        return reader, events.seq

    async def _start(self, session_id: str) -> PromptStart | None:
        starts = await self._runtime.service.last_prompts(session_id, self._who)
        return starts[-1] if starts else None

    def _sending(
        self, session_id: str, request: ChatRequest
    ) -> Callable[[], Awaitable[RunningTurn]]:
        message = request.message
        assert message is not None, "there is a message to send"

        async def send() -> PromptResult:
            return await self._operations.send_prompt(
                session_id,
                message.text,
                waits=False,
                when_busy="reject",
                idempotency_key=message.idempotency_key,
            )

        return self._work(session_id, send, FrontendCalls(), has_tools=bool(request.tools))

    def _work(
        self,
        session_id: str,
        ask: Callable[[], Coroutine[Any, Any, PromptResult]],
        calls: FrontendCalls,
        *,
        has_tools: bool,
    ) -> Callable[[], Awaitable[RunningTurn]]:
        """A function that begins the work of a turn; with tools, the front end runs their calls."""

        async def begin() -> RunningTurn:
            detach = None
            if has_tools:
                attach = self._runtime.service.attach
                detach = await attach(session_id, calls, self._who, takes_over=True)
            wait = partial(self._resumed, session_id, waits=True)
            result = asyncio.ensure_future(self._until_decidable(ask, wait))
            running = RunningTurn(result, calls, has_tools)
            self._running.setdefault(session_id, running)

            def done(task: asyncio.Task[PromptResult]) -> None:
                if self._running.get(session_id) is running:
                    del self._running[session_id]
                if detach is not None:
                    detach()
                # Keep asyncio from logging a refusal that the client left too early to read.
                if not task.cancelled():
                    task.exception()

            result.add_done_callback(done)
            return running

        return begin

    async def _until_decidable(
        self,
        ask: Callable[[], Coroutine[Any, Any, PromptResult]],
        wait: Callable[[], Coroutine[Any, Any, PromptResult]],
    ) -> PromptResult:
        """Run a turn until it is over, or waits for something that this principal may decide. With
        `wait`, what others have to decide is waited for.
        """
        result = await ask()
        while result.status == "waiting" and not await self._may_decide_any(result.pending):
            if self._runtime.is_closing:
                return result
            result = await wait()
        return result

    async def _resumed(self, session_id: str, *, waits: bool) -> PromptResult:
        return await self._operations.resume_prompt(session_id, waits=waits)

    async def _may_decide_any(self, approval_ids: Iterable[str]) -> bool:
        for approval_id in approval_ids:
            approval = await self._operations.get_approval(approval_id)
            if may_approve(approval, self._who, self._runtime.config):
                return True
        return False

    async def _follow(
        self, followed: _Followed, end: StreamEnd
    ) -> AsyncGenerator[TurnPart | Quiet]:
        session_id, reader = followed.session_id, followed.reader
        shown: set[str] = set()
        async with (
            self._operations.events(session_id, followed.after) as events,
            while_followed(await followed.begin()) as running,
        ):
            if reader.turn is not None:
                yield TurnBegun(session_id, reader.turn)
            async for event in self._events(session_id, running, events, reader, end):
                if isinstance(event, str):
                    yield "quiet"
                    continue
                if running.has_tools and isinstance(running.calls, CallsElsewhere):
                    running.calls.read(event)
                read = reader.read(event)
                async for part in with_pictures(self._runtime, self._who, read):
                    yield part
                if isinstance(event, ApprovalRequested) and event.request.caller.is_model:
                    shown.add(event.request.approval_id)
                    async for part in self._approval(event.request.approval_id, reader):
                        yield part
            running.seen = events.seq
            if not end.ended.is_set():
                async for part in self._over(running, reader, shown):
                    yield part

    async def _events(
        self,
        session_id: str,
        running: RunningTurn,
        events: SessionEvents,
        reader: TurnReader,
        end: StreamEnd,
    ) -> AsyncGenerator[Event | Quiet]:
        """The events until the turn is over or waits for the front end, or the stream ends."""
        last_seq: int | None = None
        following = asyncio.ensure_future(_next(events))
        ending = asyncio.ensure_future(end.ended.wait())
        try:
            while not ending.done():
                if following.done():
                    event = following.result()
                    if event is None:
                        return
                    following = asyncio.ensure_future(_next(events))
                    yield event
                elif last_seq is not None and events.seq >= last_seq:
                    return
                elif last_seq is None and running.result.done():
                    if running.result.exception() is not None:
                        return
                    last_seq = (await self._operations.get_session(session_id)).last_seq
                elif reader.waits_for(running.calls.waiting) and await self._is_read(
                    running, events, session_id
                ):
                    return
                elif not await self._changed(running, {following, ending}, last_seq):
                    yield "quiet"
        finally:
            await end_task(following)
            await end_task(ending)

    async def _is_read(self, running: RunningTurn, events: SessionEvents, session_id: str) -> bool:
        """Whether the calls that wait are known: those of another replica are by its records."""
        if not isinstance(running.calls, CallsElsewhere):
            return True
        return events.seq >= (await self._operations.get_session(session_id)).last_seq

    async def _changed(
        self, running: RunningTurn, futures: set[asyncio.Future[Any]], last_seq: int | None
    ) -> bool:
        """Wait until something happens; False when nothing did for the time of a heartbeat."""
        if last_seq is not None:
            done, _ = await asyncio.wait(
                futures, timeout=self._heartbeat, return_when=asyncio.FIRST_COMPLETED
            )
            return bool(done)
        running.calls.changed.clear()
        called = asyncio.ensure_future(running.calls.changed.wait())
        try:
            done, _ = await asyncio.wait(
                {*futures, called, running.result},
                timeout=self._heartbeat,
                return_when=asyncio.FIRST_COMPLETED,
            )
            return bool(done)
        finally:
            await end_task(called)

    async def _approval(self, approval_id: str, reader: TurnReader) -> AsyncGenerator[TurnPart]:
        """A request for approval that is still pending, with its call."""
        approval = await self._operations.get_approval(approval_id)
        if approval.state != "pending":
            return
        for part in reader.show_call(approval.call_id, approval.tool, approval.arguments):
            yield part
        may_decide = may_approve(approval, self._who, self._runtime.config)
        yield ApprovalShown(approval, may_decide)

    async def _over(
        self, running: RunningTurn, reader: TurnReader, shown: set[str]
    ) -> AsyncGenerator[TurnPart]:
        if not running.result.done():
            for part in reader.end():
                yield part
            yield ClientCallsWait(tuple(sorted(running.calls.waiting)))
            return
        result = running.result.result()
        for approval_id in result.pending:
            if approval_id not in shown:
                async for part in self._approval(approval_id, reader):
                    yield part
        if result.text and not reader.has_text:
            for part in reader.show_answer(result.text):
                yield part
        for part in reader.end():
            yield part
        if result.turn and reader.turn is None:
            yield TurnBegun(result.session_id, result.turn)
        yield TurnOver(result)


async def _next(events: SessionEvents) -> Event | None:
    """The next event; None when the session was closed."""
    try:
        return await anext(events)
    except StopAsyncIteration:
        return None
