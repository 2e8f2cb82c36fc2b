"""One prompt and all that follows from it: requests, calls, and the answer.

`run` is the loop. Everything it learns goes into the ledger before it is acted on, so that a turn
can go on in another process without repeating a request or a call.

Items as the ledger may keep them: verbatim, but for secrets.

What can be seen while an answer is produced, put on the bus as it comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic_core import to_json

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.credentials import Credentials, Pieces
from toolcrib.adapters.history import LOST
from toolcrib.adapters.json_fields import maybe_text
from toolcrib.adapters.nested_prompts import deadline_here
from toolcrib.adapters.tool_calls import ToolCallEnd, ToolCallItem, is_sound_id
from toolcrib.calls.outcome import run_all
from toolcrib.errors import EvaluationPhase, PromptEvaluationError, UsageError
from toolcrib.ledger.events import (
    HostedToolProgress,
    ModelAsked,
    ModelResponded,
    TextDelta,
    TurnEnded,
    TurnOutcome,
)
from toolcrib.tools.secrets import SECRET

if TYPE_CHECKING:
    from toolcrib.adapters.history import Conversation
    from toolcrib.adapters.model_client import ModelClient, ModelReply
    from toolcrib.adapters.nested_prompts import PromptScope
    from toolcrib.adapters.options import TurnOptions
    from toolcrib.adapters.response import PromptResponse
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.calls.outcome import Outcome
    from toolcrib.prompt.rendered_prompt import RenderedPrompt
    from toolcrib.session.session import Session
    from toolcrib.tools.prepared_tool import PreparedTool


_HARMLESS: Final = frozenset({"type", "id", "call_id", "name", "status"})
"""What may be shown of a call in a shape whose secrets nobody can point at."""


def recordable(
    items: Sequence[RawItem],
    asked: Sequence[ToolCallItem],
    tools: Mapping[str, PreparedTool],
    credentials: Credentials,
) -> list[Any]:
    """The items without the secret arguments of our tools and the credentials of the provider's."""
    hidden = {id(each.item): _redacted(each, tools) for each in asked if _has_secrets(each, tools)}
    return [credentials.hide(hidden.get(id(item), item)) for item in items]


def _has_secrets(asked: ToolCallItem, tools: Mapping[str, PreparedTool]) -> bool:
    tool = tools.get(asked.name)
    return tool is not None and tool.redactor is not None


def _redacted(asked: ToolCallItem, tools: Mapping[str, PreparedTool]) -> RawItem:
    redactor = tools[asked.name].redactor
    assert redactor is not None
    if asked.item.get("type") != "function_call":
        hidden = {key: SECRET for key in asked.item if key not in _HARMLESS}
        return {**asked.item, **hidden}
    shown = redactor.redact_json(str(asked.item.get("arguments", "")))
    return {**asked.item, "arguments": to_json(shown).decode()}


R = TypeVar("R", bound="PromptResponse[Any]")


class StreamAnnouncer:
    """Announces the pieces of one step. The whole response counts; these only show."""

    def __init__(self, session: Session, turn: int, step: int, pieces: Pieces) -> None:
        self._session = session
        self._turn = turn
        self._step = step
        self._pieces = pieces

    def text(self, text: str) -> None:
        """A piece of the answer's text."""
        self._say(self._pieces.add(text))

    def progress(self, item_id: str, item_type: str, what: str) -> None:
        """A call that was asked for, or that the provider runs, got further."""
        self.flush()
        session = self._session
        session.announce(
            HostedToolProgress(
                session_id=session.session_id,
                at=session.clock(),
                turn=self._turn,
                step=self._step,
                item_id=item_id,
                item_type=item_type,
                what=what,
            )
        )

    def flush(self) -> None:
        """Say what was held back: no text follows for now."""
        self._say(self._pieces.rest())

    def _say(self, text: str) -> None:
        if not text:
            return
        session = self._session
        session.announce(
            TextDelta(
                session_id=session.session_id,
                at=session.clock(),
                turn=self._turn,
                step=self._step,
                text=text,
            )
        )


async def told_to_end(session: Session, turn: int, work: Awaitable[R]) -> R:
    """Do the work of a turn, and announce how it ends, whichever way."""
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
        opening: TurnTools,
        line: ModelClient,
        options: TurnOptions,
        conversation: Conversation,
        number: int,
        evaluating: PromptScope,
    ) -> None:
        self.conversation = conversation
        self._prompt = prompt
        self._opening = opening
        self._executor = opening.executor
        self._session = opening.executor.session
        self._line = line
        self._options = options
        self._credentials = Credentials(opening.declared.secrets)
        self.number = number
        self._evaluating = evaluating
        self._deadline = deadline_here(self._session, options.budget.seconds)
        self._executor.deadline = self._deadline

    async def run(self) -> list[Outcome]:
        """Ask until the model has answered, or calls wait; returns the outcomes that wait."""
        while True:
            await self._ask()
            if self.conversation.is_paused:
                continue
            asked = self._asked()
            if not asked:
                return []
            waiting = await self._answer(asked, {})
            if waiting:
                return waiting

    async def take_up(self, ended: Mapping[str, ToolCallEnd]) -> list[Outcome]:
        """Go on with the calls of the last step: some have `ended`, some are open, and some never
        started.
        """
        asked = self._asked()
        missing = [each for each in asked if each.call_id not in ended]
        resumed = await self._executor.resume(
            [each.call_id for each in missing], deadline=self._deadline
        )
        waiting = [outcome for outcome in resumed if outcome.status == "waiting"]
        self.conversation.calls += len(resumed)
        known = {**ended, **{each.call_id: ToolCallEnd.of(each) for each in resumed}}
        if waiting:
            return waiting
        return await self._answer(asked, {**known, **self._lost(missing, known)})

    async def _ask(self) -> None:
        """Make one request and write down what came back."""
        conversation, name = self.conversation, self._prompt.name
        self._evaluating.check(conversation.steps)
        step = conversation.steps + 1
        self._announce_request(step)
        answered = await self._line.ask(
            conversation,
            step=step,
            announcer=self._announcer(step) if self._options.stream else None,
            deadline=self._deadline,
        )
        self._evaluating.spend(answered.heard.usage)
        await self._record(answered, step)
        conversation.hear(answered.heard)
        # What the provider ran has happened, whether or not there is an answer.
        await self._opening.hosted.record(answered.heard.items, self.number, answered.status, {})
        if answered.problem is not None:
            await self._opening.hosted.settle(self.number)
            raise PromptEvaluationError(
                answered.problem,
                prompt_name=name,
                phase="response",
                request_id=answered.heard.request_id,
                reason=None if answered.status in ("completed", "paused") else answered.status,
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
        return StreamAnnouncer(self._session, self.number, step, Pieces(self._credentials))

    def _asked(self) -> list[ToolCallItem]:
        asked = self._opening.sorter.asked(self.conversation.last_items)
        seen: set[str] = set()
        for each in asked:
            if not is_sound_id(each.call_id) or each.call_id in seen:
                raise self._failed(
                    f"the model called {each.name[:80]!r} with the id {each.call_id[:80]!r}, which "
                    "is no id or taken; such a call cannot be answered",
                    "response",
                )
            seen.add(each.call_id)
        return asked

    async def _answer(
        self, asked: Sequence[ToolCallItem], ended: Mapping[str, ToolCallEnd]
    ) -> list[Outcome]:
        """Run the calls that have not `ended` and say what came of all. While some wait nothing is
        said, because a provider takes the outputs of a step together.
        """
        to_run = [each for each in asked if each.call_id not in ended]
        outcomes = await self._run(to_run)
        waiting = [outcome for outcome in outcomes if outcome.status == "waiting"]
        if not waiting:
            known = {**ended, **{each.call_id: ToolCallEnd.of(each) for each in outcomes}}
            for each in asked:
                self.conversation.say(each.answer(known[each.call_id]))
        return waiting

    async def _run(self, asked: Sequence[ToolCallItem]) -> list[Outcome]:
        calls = self.conversation.calls = self.conversation.calls + len(asked)
        self._options.budget.check_calls(self._prompt.name, calls)
        try:
            return await run_all([lambda each=each: self._call(each) for each in asked])
        except UsageError as error:
            raise self._failed(str(error), "tool") from error

    async def _call(self, asked: ToolCallItem) -> Outcome:
        return await self._executor.call(
            asked.name,
            asked.arguments,
            call_id=asked.call_id,
            caller=self._executor.governance.caller,
            deadline=self._deadline,
        )

    def _lost(
        self, missing: Sequence[ToolCallItem], known: Mapping[str, ToolCallEnd]
    ) -> dict[str, ToolCallEnd]:
        """Calls that never started and cannot start now: the ledger has no secrets."""
        tools = self._executor.tools
        return {
            each.call_id: LOST
            for each in missing
            if each.call_id not in known
            and each.name in tools
            and tools[each.name].redactor is not None
        }

    async def _record(self, answered: ModelReply, step: int) -> None:
        session, opening, heard = self._session, self._opening, answered.heard
        asked = opening.sorter.asked(heard.items)
        items = recordable(heard.items, asked, self._executor.tools, self._credentials)
        usage = heard.usage
        await session.record(
            ModelResponded(
                session_id=session.session_id,
                at=session.clock(),
                turn=self.number,
                step=step,
                status=answered.status,
                response_id=heard.response_id,
                request_id=heard.request_id,
                model=heard.model,
                items=items,
                usage={
                    "input_tokens": usage.input_tokens,
                    "output_tokens": usage.output_tokens,
                    "cached_tokens": usage.cached_tokens,
                    "reasoning_tokens": usage.reasoning_tokens,
                },
            )
        )
        logger.debug(
            "%s step %d: response %s, request %s, model %s, %d items, containers %s",
            self._prompt.name,
            step,
            heard.response_id,
            heard.request_id,
            heard.model,
            len(heard.items),
            _containers(heard.items),
        )

    def _failed(self, message: str, phase: EvaluationPhase) -> PromptEvaluationError:
        ids = self.conversation.request_ids
        return PromptEvaluationError(
            message,
            prompt_name=self._prompt.name,
            phase=phase,
            request_id=ids[-1] if ids else None,
        )


def _containers(items: Sequence[Mapping[str, Any]]) -> list[str]:
    found = (maybe_text(item, "container_id") for item in items)
    return sorted({each for each in found if each})
