"""`Chat`: a conversation with a model in one session, in the process or over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, overload
from uuid import uuid4

from toolcrib.errors import Refused, UsageError
from toolcrib.ledger.events import ApprovalRequested, Event, ToolInvoked
from toolcrib.ledger.prompt_events import SUMMARY_PROMPT, PromptAnswered, PromptStarted
from toolcrib.ledger.question_events import QuestionAsked
from toolcrib.runtime.approval_messages import ApprovalFacts, QuestionFacts
from toolcrib.runtime.messages import PromptResult
from toolcrib.runtime.typed_operations import TypedOperations

if TYPE_CHECKING:
    from toolcrib.runtime.approval_messages import AnsweredQuestion, GrantTerms
    from toolcrib.runtime.config import WhenBusy
    from toolcrib.runtime.messages import Cancelled, Tools
    from toolcrib.runtime.session_events import SessionEvents

ChatEvent: TypeAlias = Event | PromptResult
"""What a turn yields: the session's events, and at the end the result."""

Waiting: TypeAlias = ApprovalRequested | ApprovalFacts | str
"""A request for approval: its event, its facts, or its id."""


Asked: TypeAlias = QuestionAsked | QuestionFacts
"""A question of a running call: its event, or its facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One turn of a conversation: what the user wrote, the calls of the model, and its answer."""

    turn: int
    at: float
    text: str
    calls: tuple[ToolInvoked, ...] = ()
    answer: str | None = None
    """None while there is no answer: the prompt waits, was interrupted, failed or was cancelled."""


class ChatTurn:
    """A prompt that is answered. `async for` yields the events of the session as they happen, such
    as `TextDelta`, `ToolProgress`, `ApprovalRequested` and `ToolInvoked`, and last a
    `PromptResult`; `await` passes over the events and returns the result.

    It begins with the first step. Leaving it does not cancel the prompt, which goes on; `cancel` of
    the chat ends it. When the process ends meanwhile, `resume` of the chat continues it.
    """

    def __init__(self, steps: AsyncGenerator[ChatEvent]) -> None:
        self._steps = steps
        self._result: PromptResult | None = None

    @property
    def result(self) -> PromptResult:
        """The result. Raises `UsageError` while the turn is not over."""
        if self._result is None:
            raise UsageError("the turn is not over; iterate it to its end, or await it")
        return self._result

    def __aiter__(self) -> AsyncIterator[ChatEvent]:
        return self

    async def __anext__(self) -> ChatEvent:
        step = await anext(self._steps)
        if isinstance(step, PromptResult):
            self._result = step
        return step

    def __await__(self) -> Generator[Any, Any, PromptResult]:
        return self._finish().__await__()

    async def aclose(self) -> None:
        """Stop following the events."""
        await self._steps.aclose()

    async def _finish(self) -> PromptResult:
        async for _ in self:
            pass
        return self.result


class Chat:
    """A conversation with the model of a runtime. `runtime.chat(session_id)` opens one; everything
    it says and does is in that session, so a later process goes on where this one stopped.

    The methods raise `Refused` when what they do is not allowed or not possible.
    """

    def __init__(self, operations: TypedOperations, session_id: str) -> None:
        self.session_id = session_id
        self._operations = operations

    def send(self, text: str, *, waits: bool = True, when_busy: WhenBusy | None = None) -> ChatTurn:
        """Send what the user wrote. A call that needs approval yields `ApprovalRequested`, and the
        turn continues when somebody decides, here (`approve`, `deny`, `answer`) or elsewhere;
        without `waits` it ends as `waiting`. A prompt that was not finished is abandoned.
        """
        send = partial(
            self._operations.send_prompt,
            self.session_id,
            text,
            waits=waits,
            when_busy=when_busy,
            idempotency_key=_new_key(),
        )
        return ChatTurn(self._steps(send))

    def resume(self, *, waits: bool = True) -> ChatTurn:
        """Continue the prompt that waits or was interrupted, also by a crash. It yields the
        requests that still wait first. No answered request and no finished call is repeated.
        """
        resume = partial(
            self._operations.resume_prompt,
            self.session_id,
            waits=waits,
            idempotency_key=_new_key(),
        )
        return ChatTurn(self._steps(resume, is_resumed=True))

    async def is_unfinished(self) -> bool:
        """Whether there is a prompt to resume."""
        facts = await self._operations.get_session(self.session_id)
        return facts.has_open_prompt and not facts.is_busy

    async def pending(self) -> list[ApprovalFacts]:
        """The requests of this session that wait for a decision, oldest first."""
        inbox = await self._operations.list_approvals(session_id=self.session_id)
        return inbox.approvals

    async def approve(
        self,
        request: Waiting,
        *,
        arguments: Mapping[str, Any] | None = None,
        grant: GrantTerms | None = None,
    ) -> ApprovalFacts:
        """Let a call run, with other `arguments` or with a `grant` for calls to come, if given."""
        return await self._operations.decide(
            _approval_id(request),
            "approve",
            digest=_digest(request),
            arguments=arguments,
            grant=grant,
        )

    async def deny(self, request: Waiting, reason: str | None = None) -> ApprovalFacts:
        """Refuse a call; the model is told the reason."""
        return await self._operations.decide(_approval_id(request), "deny", reason=reason)

    @overload
    async def answer(self, request: Asked, value: Any) -> AnsweredQuestion: ...

    @overload
    async def answer(self, request: Waiting, value: Any) -> ApprovalFacts: ...

    async def answer(
        self, request: Waiting | Asked, value: Any
    ) -> ApprovalFacts | AnsweredQuestion:
        """Answer a question of a running call, which goes on with the value. Given a request for
        approval, answer in the tool's place: the call does not run, and the model gets the value.
        """
        if isinstance(request, QuestionAsked | QuestionFacts):
            return await self._operations.answer_question(_question_id(request), value)
        return await self._operations.decide(_approval_id(request), "answer", value=value)

    async def decline(self, question: Asked, reason: str | None = None) -> AnsweredQuestion:
        """Do not answer a question of a running call."""
        return await self._operations.answer_question(
            _question_id(question), action="decline", reason=reason
        )

    async def questions(self) -> list[QuestionFacts]:
        """The open questions of this session's calls, oldest first."""
        return (await self._operations.list_questions(session_id=self.session_id)).questions

    async def cancel(self) -> Cancelled:
        """Stop the prompt that runs, or abandon the one that waits."""
        return await self._operations.cancel_prompt(self.session_id)

    async def tools(self) -> Tools:
        """The tools that the model may use."""
        return await self._operations.list_tools(self.session_id)

    async def history(self) -> list[Exchange]:
        """The conversation so far, as the ledger has it."""
        exchanges: dict[int, Exchange] = {}
        async for event in self._recorded():
            match event:
                case PromptStarted(turn=turn, text=text, at=at, parent_call_id=None) if (
                    event.prompt_name != SUMMARY_PROMPT
                ):
                    exchanges[turn] = Exchange(turn=turn, at=at, text=text)
                case ToolInvoked(turn=turn) if turn in exchanges:
                    calls = (*exchanges[turn].calls, event)
                    exchanges[turn] = replace(exchanges[turn], calls=calls)
                case PromptAnswered(turn=turn, text=text) if turn in exchanges:
                    exchanges[turn] = replace(exchanges[turn], answer=text)
                case _:
                    pass
        return list(exchanges.values())

    async def close(self) -> None:
        """Close the session. It stays in the store, and a prompt that waits can be resumed."""
        await self._operations.close_session(self.session_id)

    async def _recorded(self) -> AsyncGenerator[Event]:
        """The events of the ledger up to now."""
        facts = await self._operations.get_session(self.session_id)
        async with self._operations.events(self.session_id) as events:
            while events.seq < facts.last_seq and (event := await _next(events)) is not None:
                yield event

    async def _waiting(self) -> list[ApprovalRequested]:
        """The events of the requests that wait."""
        pending = {facts.approval_id for facts in await self.pending()}
        if not pending:
            return []
        return [
            event
            async for event in self._recorded()
            if isinstance(event, ApprovalRequested) and event.request.approval_id in pending
        ]

    async def _steps(
        self, ask: Callable[[], Coroutine[Any, Any, PromptResult]], *, is_resumed: bool = False
    ) -> AsyncGenerator[ChatEvent]:
        operations, session_id = self._operations, self.session_id
        last_seq = (await operations.get_session(session_id)).last_seq
        waiting = await self._waiting() if is_resumed else []
        async with operations.events(session_id, last_seq) as events:
            # Cancelling this task ends the wait only, not the prompt.
            prompt = asyncio.ensure_future(self._answered(ask))
            try:
                for request in waiting:
                    yield request
                async for event in self._until_done(events, prompt):
                    yield event
                yield await prompt
            finally:
                await _end(prompt)

    async def _answered(self, ask: Callable[[], Coroutine[Any, Any, PromptResult]]) -> PromptResult:
        """The result of a prompt. It may wait for a person longer than a connection lasts: while
        the session is at it, the same request is made again, under the same idempotency key.
        """
        while True:
            try:
                return await ask()
            except Refused as refused:
                if refused.kind != "unavailable" or not await self._is_busy():
                    raise

    async def _is_busy(self) -> bool:
        return (await self._operations.get_session(self.session_id)).is_busy

    async def _until_done(
        self, events: SessionEvents, prompt: asyncio.Future[PromptResult]
    ) -> AsyncGenerator[Event]:
        """The events up to the end of the prompt."""
        last_seq: int | None = None
        following = asyncio.ensure_future(_next(events))
        try:
            while True:
                if following.done():
                    event = following.result()
                    if event is None:
                        return
                    following = asyncio.ensure_future(_next(events))
                    yield event
                elif last_seq is not None and events.seq >= last_seq:
                    return
                elif last_seq is None and prompt.done():
                    if prompt.exception() is not None:
                        return
                    facts = await self._operations.get_session(self.session_id)
                    last_seq = facts.last_seq
                else:
                    waited = {following} if last_seq is not None else {following, prompt}
                    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(following)


class ChatOperations(TypedOperations):
    """The operations of a runtime, and chats that are made of them."""

    async def chat(self, session_id: str | None = None) -> Chat:
        """A chat in a session of the store; a new session when there is none of that id."""
        facts = await self.open_session(session_id)
        return Chat(self, facts.session_id)


async def _next(events: SessionEvents) -> Event | None:
    """The next event; None when the session was closed."""
    try:
        return await anext(events)
    except StopAsyncIteration:
        return None


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and wait until it has ended."""
    if task.done():
        return
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task


def _new_key() -> str:
    return f"chat-{uuid4().hex}"


def _approval_id(request: Waiting) -> str:
    match request:
        case ApprovalRequested():
            return request.request.approval_id
        case ApprovalFacts():
            return request.approval_id
        case str():
            return request


def _question_id(question: Asked) -> str:
    if isinstance(question, QuestionAsked):
        return question.question.question_id
    return question.question_id


def _digest(request: Waiting) -> str | None:
    """The digest of the arguments that whoever decides has seen."""
    match request:
        case ApprovalRequested():
            return request.request.digest
        case ApprovalFacts():
            return request.digest
        case str():
            return None
