"""The loop of a turn: requests, tool calls and the answer.

`Turn.run` is the loop. Every reply goes into the ledger before it is acted on, so that a turn can
be resumed in another process without repeating a request or a call. What streams in meanwhile is
announced on the bus; only the whole reply counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolcrib.adapters.history import LOST
from toolcrib.adapters.items import (
    ReplyItem,
    ToolCallEnd,
    ToolCallItem,
    is_sound_id,
    tool_calls,
)
from toolcrib.adapters.model_client import QueuedReply
from toolcrib.adapters.options import Usage
from toolcrib.adapters.prompt_scope import deadline_here
from toolcrib.adapters.prompt_stream import reader_ready
from toolcrib.adapters.request_hooks import PromptHooks
from toolcrib.adapters.stream_announcer import StreamAnnouncer
from toolcrib.calls.outcome import run_all
from toolcrib.calls.provider_calls import artifacts_of
from toolcrib.errors import EvaluationPhase, PromptEvaluationError, UsageError
from toolcrib.ledger.kept_text import Keeper
from toolcrib.ledger.prompt_events import (
    ContainerExpired,
    HistoryOmitted,
    ModelAsked,
    ModelCancelled,
    ModelQueued,
    ModelResponded,
    ModelRetried,
    TurnEnded,
    TurnOutcome,
)
from toolcrib.prices.cost import Cost
from toolcrib.prices.table import request_part

if TYPE_CHECKING:
    from toolcrib.adapters.answer import PromptResponse
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.credentials import Credentials
    from toolcrib.adapters.history import Conversation, ReplyItems
    from toolcrib.adapters.model_client import FailedAttempt, ModelClient, ModelReply
    from toolcrib.adapters.options import TurnOptions
    from toolcrib.adapters.prompt_scope import PromptScope
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.calls.outcome import Outcome
    from toolcrib.prompt.prompt import RenderedPrompt
    from toolcrib.session.session import Session
    from toolcrib.tools.prepared_tool import PreparedTool


def recordable(
    items: Sequence[ReplyItem], tools: Mapping[str, PreparedTool], credentials: Credentials
) -> list[RawItem]:
    """The items as the ledger keeps them: verbatim, without the secret arguments of local tools and
    the credentials of hosted ones.
    """
    return [credentials.hide(_redacted(item, tools)) for item in items]


def _redacted(item: ReplyItem, tools: Mapping[str, PreparedTool]) -> RawItem:
    if not isinstance(item, ToolCallItem):
        return item.raw
    tool = tools.get(item.name)
    if tool is None or tool.redactor is None:
        return item.raw
    return item.reader.redacted(item.raw, tool.redactor)


R = TypeVar("R", bound="PromptResponse[Any]")


async def announced(session: Session, turn: int, work: Awaitable[R]) -> R:
    """Do the work of a turn and announce how it ends, also when it fails or is cancelled."""
    outcome: TurnOutcome = "failed"
    try:
        response = await work
        outcome = response.status
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    finally:
        if session.is_heard:
            session.announce(
                TurnEnded(
                    session_id=session.session_id, at=session.clock(), turn=turn, outcome=outcome
                )
            )
    return response


O = TypeVar("O")  # noqa: E741

logger = logging.getLogger(__name__)


class Turn(Generic[O]):
    """A turn in progress; `number` is its number in the session."""

    def __init__(
        self,
        prompt: RenderedPrompt[O],
        tools: TurnTools,
        client: ModelClient,
        options: TurnOptions,
        conversation: Conversation,
        number: int,
        scope: PromptScope,
    ) -> None:
        self.conversation = conversation
        self._prompt = prompt
        self._tools = tools
        self._executor = tools.executor
        self._session = tools.executor.session
        self._client = client
        self._options = options
        self._credentials = tools.credentials
        self.number = number
        self._scope = scope
        self._hooks = PromptHooks(prompt, tools, options.model)
        self._deadline = deadline_here(self._session, options.budget.seconds)
        self._executor.deadline = self._deadline

    async def run(self) -> list[Outcome]:
        """Make requests until the model has answered, or calls wait; returns the outcomes that
        wait.
        """
        while True:
            await self._request()
            if self.conversation.is_paused:
                continue
            calls = self._calls()
            if not calls:
                return []
            waiting = await self._answer(calls, {})
            if waiting:
                return waiting

    async def take_up(self, ends: Mapping[str, ToolCallEnd]) -> list[Outcome]:
        """Continue with the calls of the last step: those in `ends` are over, others are open, and
        others never started.
        """
        calls = self._calls()
        id_of = self.conversation.id_of
        missing = [call for call in calls if id_of(call) not in ends]
        resumed = await self._executor.resume(
            [id_of(call) for call in missing], deadline=self._deadline
        )
        waiting = [outcome for outcome in resumed if outcome.status == "waiting"]
        self.conversation.calls += len(resumed)
        known = {**ends, **{outcome.call_id: ToolCallEnd.of(outcome) for outcome in resumed}}
        if waiting:
            return waiting
        return await self._answer(calls, {**known, **self._lost(missing, known)})

    async def _request(self) -> None:
        """Make one request and record the reply."""
        conversation, name = self.conversation, self._prompt.name
        self._scope.check(conversation.steps)
        self._check_price()
        step = conversation.steps + 1
        await self._record_losses()
        await self._hooks.before(conversation, self.number, step)
        await reader_ready()
        self._announce_request(step)
        reply = await self._reply(step)
        await self._record_losses()
        content = replace(reply.content, cost=self._cost_of(reply.content))
        self._scope.spend(content.usage, content.cost)
        await self._record(replace(reply, content=content), step)
        conversation.add_reply(content)
        # What the provider ran has happened, whether or not there is an answer.
        await self._record_hosted(reply)
        await self._hooks.after(content, self.number, step)
        if reply.problem is not None:
            await self._tools.hosted.settle(self.number)
            raise PromptEvaluationError(
                reply.problem,
                prompt_name=name,
                phase="response",
                request_id=content.request_id or next(reversed(conversation.request_ids), None),
                reason=None if reply.status in ("completed", "paused") else reply.status,
            )

    async def _reply(self, step: int) -> ModelReply:
        """The reply to the next request; to one that the provider answers in the background, when
        it is there.
        """
        conversation = self.conversation
        while True:
            try:
                reply = await self._client.request(
                    conversation,
                    step=step,
                    announcer=self._announcer(step) if self._options.stream else None,
                    deadline=self._deadline,
                    on_retry=partial(self._record_retry, step),
                )
            except asyncio.CancelledError:
                if conversation.queued_id is not None:
                    await self._cancel(conversation.queued_id, step)
                raise
            if not isinstance(reply, QueuedReply):
                return reply
            conversation.queued_id = reply.response_id
            if reply.request_id is not None:
                conversation.request_ids.append(reply.request_id)
            await self._record_queued(reply, step)

    async def _cancel(self, response_id: str, step: int) -> None:
        """Let the provider stop its work on a response, and write that down."""
        session = self._session
        is_confirmed = await self._client.cancel(response_id)
        await session.record(
            ModelCancelled(
                session_id=session.session_id,
                at=session.clock(),
                turn=self.number,
                step=step,
                response_id=response_id,
                is_confirmed=is_confirmed,
            )
        )

    async def _record_hosted(self, reply: ModelReply) -> None:
        hosted = self._tools.hosted
        hosted.costs.model = reply.content.model or self._options.model
        before = len(hosted.ran)
        await hosted.record(reply.content.items, self.number, reply.status, {})
        for ran in hosted.ran[before:]:
            self._scope.spend(Usage(), ran.invocation.cost)

    def _check_price(self) -> None:
        """Raise, before the first request, when a limit on the cost could not be kept."""
        if self._options.budget.max_cost is None or self.conversation.steps:
            return
        prices, model = self._session.store.prices, self._options.model
        part = request_part(prices, self._tools.provider, model, {}, self._session.clock())
        self._options.budget.check_price(self._prompt.name, part, f"the model {model!r}")

    def _cost_of(self, content: ReplyItems) -> Cost | None:
        prices, model = self._session.store.prices, content.model or self._options.model
        part = request_part(
            prices, self._tools.provider, model, content.usage.tokens, self._session.clock()
        )
        return None if part is None else Cost((part,))

    async def _record_retry(self, step: int, retry: FailedAttempt) -> None:
        session = self._session
        self.conversation.usage += Usage(requests=1)
        reason = self._credentials.hide(retry.reason)
        logger.info(
            "prompt %r: attempt %s of a request (id %s) failed: %s; the next one comes in %.1f s",
            self._prompt.name,
            retry.attempt,
            retry.request_id,
            reason,
            retry.pause_seconds,
        )
        await session.record(
            ModelRetried(
                session_id=session.session_id,
                at=session.clock(),
                turn=self.number,
                step=step,
                attempt=retry.attempt,
                reason=reason,
                request_id=retry.request_id,
                pause_seconds=retry.pause_seconds,
            )
        )

    def _announce_request(self, step: int) -> None:
        session = self._session
        if session.is_heard:
            session.announce(
                ModelAsked(
                    session_id=session.session_id,
                    at=session.clock(),
                    turn=self.number,
                    step=step,
                )
            )

    def _announcer(self, step: int) -> StreamAnnouncer:
        return StreamAnnouncer(self._tools, self.number, step, self.conversation.next_id)

    def _calls(self) -> list[ToolCallItem]:
        """The calls of the last reply. Raises `PromptEvaluationError` when two have the same id, or
        one has an id that the ledger cannot keep.
        """
        calls = tool_calls(self.conversation.last_items)
        seen: set[str] = set()
        for call in calls:
            call_id = self.conversation.id_of(call)
            if not is_sound_id(call.call_id) or call_id in seen:
                raise self._failed(
                    f"the model called {call.name[:80]!r} with the id {call.call_id[:80]!r}, which "
                    "is no id or taken; such a call cannot be answered",
                    "response",
                )
            seen.add(call_id)
        return calls

    async def _answer(
        self, calls: Sequence[ToolCallItem], ends: Mapping[str, ToolCallEnd]
    ) -> list[Outcome]:
        """Run the calls that are not in `ends` and add the outputs of all. While one waits none is
        added, because a provider takes the outputs of a step together.
        """
        id_of = self.conversation.id_of
        outcomes = await self._run([call for call in calls if id_of(call) not in ends])
        waiting = [outcome for outcome in outcomes if outcome.status == "waiting"]
        if not waiting:
            known = {**ends, **{outcome.call_id: ToolCallEnd.of(outcome) for outcome in outcomes}}
            for call in calls:
                self.conversation.add(call.output(known[id_of(call)]))
        return waiting

    async def _run(self, calls: Sequence[ToolCallItem]) -> list[Outcome]:
        count = self.conversation.calls = self.conversation.calls + len(calls)
        self._options.budget.check_calls(self._prompt.name, count)
        try:
            return await run_all([lambda call=call: self._call(call) for call in calls])
        except UsageError as error:
            raise self._failed(str(error), "tool") from error

    async def _call(self, call: ToolCallItem) -> Outcome:
        return await self._executor.call(
            call.name,
            call.arguments,
            call_id=self.conversation.id_of(call),
            caller=self._executor.governance.caller,
            deadline=self._deadline,
        )

    def _lost(
        self, missing: Sequence[ToolCallItem], known: Mapping[str, ToolCallEnd]
    ) -> dict[str, ToolCallEnd]:
        """Calls that never started and cannot start now: the ledger has no secrets."""
        tools, id_of = self._executor.tools, self.conversation.id_of
        return {
            id_of(call): LOST
            for call in missing
            if id_of(call) not in known
            and call.name in tools
            and tools[call.name].redactor is not None
        }

    async def _record_queued(self, reply: QueuedReply, step: int) -> None:
        session = self._session
        await session.record(
            ModelQueued(
                session_id=session.session_id,
                at=session.clock(),
                turn=self.number,
                step=step,
                response_id=reply.response_id,
                request_id=reply.request_id,
            )
        )

    async def _record_losses(self) -> None:
        """Write down what of earlier turns the request does not say again."""
        session, conversation = self._session, self.conversation
        if conversation.newly_expired is not None:
            expired, conversation.newly_expired = conversation.newly_expired, None
            await session.record(
                ContainerExpired(
                    session_id=session.session_id,
                    at=session.clock(),
                    turn=self.number,
                    container_ids=expired.ids,
                    reason=expired.reason,
                )
            )
        if conversation.omitted:
            omitted, conversation.omitted = conversation.omitted, []
            await session.record(
                HistoryOmitted(
                    session_id=session.session_id,
                    at=session.clock(),
                    turn=self.number,
                    items=tuple(omitted),
                )
            )

    async def _record(self, reply: ModelReply, step: int) -> None:
        session, content = self._session, reply.content
        keeper = Keeper()
        items = keeper.take(recordable(content.items, self._executor.tools, self._credentials))
        await session.record(
            ModelResponded(
                session_id=session.session_id,
                at=session.clock(),
                turn=self.number,
                step=step,
                status=reply.status,
                response_id=content.response_id,
                request_id=content.request_id,
                model=content.model,
                items=items,
                usage=content.usage.tokens,
                cost=content.cost,
                kept=keeper.kept,
            ),
            artifacts_of(keeper),
        )
        logger.debug(
            "%s step %d: response %s, request %s, model %s, %d items",
            self._prompt.name,
            step,
            content.response_id,
            content.request_id,
            content.model,
            len(content.items),
        )

    def _failed(self, message: str, phase: EvaluationPhase) -> PromptEvaluationError:
        ids = self.conversation.request_ids
        return PromptEvaluationError(
            message,
            prompt_name=self._prompt.name,
            phase=phase,
            request_id=ids[-1] if ids else None,
        )
