"""The prompts of a live session: sent, resumed after a decision, abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import TypeAdapter

from toolcrib.calls.tool_table import is_visible
from toolcrib.errors import EvaluationReason, PromptEvaluationError, Refused, UsageError
from toolcrib.host_tools.session_tools import session_context
from toolcrib.ledger.prompt_events import PromptAnswered, PromptStarted, PromptStopped
from toolcrib.prompt.prompt import Prompt
from toolcrib.prompt.section import UserText
from toolcrib.runtime.event_reader import envelope_of
from toolcrib.runtime.live_session import decided, waiting_allowed
from toolcrib.runtime.messages import AgentFacts, PromptResult, PromptStatus
from toolcrib.runtime.session_setup import OPEN_PROMPT
from toolcrib.store.store import ask_store
from toolcrib.tools.prepared_tool import is_available

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from toolcrib.adapters.answer import PromptResponse
    from toolcrib.adapters.options import Budget
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.approval.caller import Caller
    from toolcrib.ledger.record import Record
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.store.store import KeyClaim, OpenCall

_INSTRUCTIONS: Final = "prompt_instructions"
"""The host setting with the instructions of the last prompt: one that is resumed goes on with those
that it began with."""


NO_AGENT: Final = (
    "this runtime has no model; name one in `model:` of toolcrib.yaml, or an adapter with "
    "--adapter MODULE:NAME, and start it again"
)
"""What a runtime without a model says to a prompt, and in its capabilities."""


def agent_facts(adapter: PromptAdapter | None) -> AgentFacts:
    """What answers the prompts of a runtime; without an adapter, how to get one."""
    if adapter is None:
        return AgentFacts(is_configured=False, hint=NO_AGENT)
    model = getattr(adapter, "model", None)
    return AgentFacts(
        is_configured=True,
        provider=adapter.name,
        model=model if isinstance(model, str) else None,
        adapter=type(adapter).__name__,
    )


@dataclass(frozen=True, slots=True)
class PromptRunner:
    """Evaluates prompts in a live session with an adapter, on behalf of `caller`. `instructions`
    are the host's, for every prompt.
    """

    live: LiveSession
    adapter: PromptAdapter
    instructions: str
    caller: Caller
    budget: Budget | None = None

    async def send(
        self, text: str, *, waits: bool, holds_calls: bool | None = None
    ) -> PromptResult:
        """Evaluate a prompt; with `waits`, wait for the approvals that it needs. A prompt of the
        session that has not ended is abandoned.

        `holds_calls` says whether a call within another one may wait for its approval while that
        one runs: as `waits`, unless it is given.
        """
        await abandon_prompt(self.live, by=self.caller.principal)
        instructions = _instructions(self.live, self.instructions, self.caller)
        self.live.session.set_host_setting(_INSTRUCTIONS, instructions)
        self.live.session.set_host_setting(OPEN_PROMPT, text)
        earlier = self.live.session.last_turn
        return await self._until_answered(
            text,
            self.adapter.evaluate_async,
            waits=waits,
            holds_calls=waits if holds_calls is None else holds_calls,
            after_turn=earlier,
        )

    async def resume(self, *, waits: bool, holds_calls: bool | None = None) -> PromptResult:
        """Resume the prompt that has not ended. Raises `Refused` (conflict) when there is none, or
        when it cannot be resumed.
        """
        text = self.live.session.host_setting(OPEN_PROMPT)
        if text is None:
            raise Refused("conflict", "the session has no prompt to resume; send one")
        return await self._until_answered(
            text,
            self.adapter.resume_async,
            waits=waits,
            holds_calls=waits if holds_calls is None else holds_calls,
        )

    async def _until_answered(
        self,
        text: str,
        ask: Callable[..., Awaitable[PromptResponse[Any]]],
        *,
        waits: bool,
        holds_calls: bool,
        after_turn: int = 0,
    ) -> PromptResult:
        live = self.live
        try:
            with waiting_allowed(holds_calls), live.partial_replies.collected(live.session):
                response = await self._ask(text, ask)
                while (
                    response.status == "waiting" and waits and await decided(live, response.pending)
                ):
                    response = await self._ask(text, self.adapter.resume_async)
        except asyncio.CancelledError:
            # A prompt of a closing session is resumed later; only a cancelled one is abandoned.
            if not live.is_closing:
                await abandon_prompt(live, by=live.stopped_by)
            raise
        except PromptEvaluationError as error:
            result = await prompt_without_answer(live, "failed", str(error), error.reason)
            # One that failed before it began is in no ledger: its turn is that of another.
            if result.turn > after_turn:
                await _record_stop(live, result.turn, "failed", result)
            return result
        except UsageError as error:
            raise Refused("conflict", str(error)) from None
        if response.status != "waiting":
            live.session.set_host_setting(OPEN_PROMPT, None)
        return await _result(live, response)

    async def _ask(
        self, text: str, ask: Callable[..., Awaitable[PromptResponse[Any]]]
    ) -> PromptResponse[Any]:
        """Evaluate the prompt with the tools that the session has now."""
        session = self.live.session
        tools = {
            name: prepared.tool
            for name, prepared in self.live.executor.tools.items()
            if is_visible(prepared.tool, self.caller)
        }
        offered = [*tools.values(), *(prepared.tool for prepared in self.live.hosted.values())]
        instructions = session.host_setting(_INSTRUCTIONS)
        if instructions is None:
            # Begun before they were kept: never without those of the host.
            instructions = _instructions(self.live, self.instructions, self.caller)
        prompt = _prompt(offered, instructions, text)
        governance = self.live.governance(tools, self.caller)
        return await ask(
            prompt,
            session=session,
            governance=governance,
            stream=True,
            follows=True,
            budget=self.budget,
        )


async def cancel_prompt(live: LiveSession, *, by: str) -> bool:
    """Cancel the running prompt, or abandon the one that waits; False when there is none."""
    live.stopped_by = by
    try:
        was_running = await live.slot.cancel()
    finally:
        live.stopped_by = None
    return was_running or await abandon_prompt(live, by=by)


async def abandon_prompt(live: LiveSession, *, by: str | None) -> bool:
    """End the prompt of a session that has not ended, and withdraw the approvals it waits for.
    False when there is none. `by` is the principal that does so, where it is known.
    """
    session = live.session
    if session.host_setting(OPEN_PROMPT) is None:
        return False
    session.set_host_setting(OPEN_PROMPT, None)
    turn = await turn_of(live)
    for call in await ask_store(session.store, session.open_calls):
        if is_of_prompt(call, turn):
            # Another request may have resumed or ended the call since it was read.
            with suppress(UsageError):
                await live.executor.withdraw(call.call_id)
    await ask_store(session.store, session.save_settings)
    if turn and await answer_of(live, turn) is None:
        await _record_stop(live, turn, "cancelled", by=by)
    return True


async def _record_stop(
    live: LiveSession,
    turn: int,
    outcome: Literal["failed", "cancelled"],
    result: PromptResult | None = None,
    *,
    by: str | None = None,
) -> None:
    """Write down that a prompt ended without an answer, so that whoever reads on later knows."""
    session = live.session
    await session.record(
        PromptStopped(
            session_id=session.session_id,
            at=session.clock(),
            turn=turn,
            outcome=outcome,
            error=result.error if result else None,
            reason=result.reason if result else None,
            principal=by,
        )
    )


def is_of_prompt(call: OpenCall, turn: int) -> bool:
    """Whether the model made this call in this turn. Clients may call without a model meanwhile."""
    return call.turn == turn and call.caller.is_model and call.state == "waiting"


async def turn_of(live: LiveSession) -> int:
    """The turn of the last prompt. Prompts that a tool evaluates do not count."""
    session = live.session

    def last_turn() -> int:
        starts = session.events(kinds=(PromptStarted.kind,), newest_first=True)
        for start in starts:
            if isinstance(start, PromptStarted) and start.parent_call_id is None:
                return start.turn
        return 0

    return await ask_store(session.store, last_turn)


@dataclass(frozen=True, slots=True)
class PromptStart:
    """Where a prompt starts in the ledger of its session."""

    turn: int
    seq: int


def last_prompts(newest_starts: Iterable[Record], most: int) -> list[PromptStart]:
    """Where the last prompts start, in order, among records of their starts, newest first. Prompts
    that a tool evaluates do not count.
    """
    starts: list[PromptStart] = []
    for record in newest_starts:
        data = envelope_of(record).data
        if data.get("parent_call_id") is None and "turn" in data:
            starts.append(PromptStart(data["turn"], record.seq))
        if len(starts) == most:
            break
    return starts[::-1]


async def was_begun(live: LiveSession, claim: KeyClaim) -> bool:
    """Whether a prompt that was sent under an idempotency key began, and waits or was cut off."""
    is_unfinished = live.session.host_setting(OPEN_PROMPT) is not None
    return is_unfinished and await turn_of(live) > claim.after_turn


async def answered_prompt(live: LiveSession, claim: KeyClaim) -> PromptResult | None:
    """What came of a prompt that was sent under an idempotency key; None when it may go on."""
    known = None if claim.outcome is None else _result_adapter().validate_json(claim.outcome)
    if known is not None and known.status not in ("waiting", "completed"):
        return known
    turn = await turn_of(live) if known is None else known.turn
    if turn <= claim.after_turn:
        return None
    text = await answer_of(live, turn)
    if text is not None:
        known = known or PromptResult(
            session_id=live.session.session_id, turn=turn, status="completed"
        )
        return replace(known, turn=turn, status="completed", text=text, pending=[])
    if known is not None and known.status == "completed":
        raise Refused("conflict", "what the prompt under this key answered was deleted")
    if await was_begun(live, claim) and turn == await turn_of(live):
        return None
    return PromptResult(session_id=live.session.session_id, turn=turn, status="cancelled")


def prompt_outcome(result: PromptResult) -> bytes:
    """What is kept of a result under an idempotency key: the answer itself is in the ledger."""
    return _result_adapter().dump_json(replace(result, text=""))


@cache
def _result_adapter() -> TypeAdapter[PromptResult]:
    return TypeAdapter(PromptResult)


async def answer_of(live: LiveSession, turn: int) -> str | None:
    """The answer to the prompt of a turn; None when there is none, or when it was deleted."""
    session = live.session

    def read() -> str | None:
        return answer_among(session.records(kinds=ANSWER_KINDS, newest_first=True), turn)

    return await ask_store(session.store, read)


ANSWER_KINDS: Final = (PromptStarted.kind, PromptAnswered.kind)


def answer_among(newest: Iterable[Record], turn: int) -> str | None:
    """The answer to the prompt of a turn among records of `ANSWER_KINDS`, newest first."""
    for record in newest:
        match None if record.payload is None else record.event:
            case PromptAnswered(turn=number, text=text) if number == turn:
                return text
            # Its answer would come after it.
            case PromptStarted(turn=number) if number == turn:
                return None
            case _:
                pass
    return None


async def prompt_without_answer(
    live: LiveSession,
    status: PromptStatus,
    error: str | None = None,
    reason: EvaluationReason | None = None,
) -> PromptResult:
    """The result of a prompt that the model did not answer."""
    session_id, turn = live.session.session_id, await turn_of(live)
    return PromptResult(session_id=session_id, turn=turn, status=status, error=error, reason=reason)


def _prompt(tools: list[Any], instructions: str, text: str) -> Prompt[Any]:
    """A person's text as it is, with the tools of the session."""
    sections = [UserText(text, tools=tools)]
    return Prompt(ns="session", key="prompt", sections=sections, instructions=instructions)


def _instructions(live: LiveSession, of_host: str, caller: Caller) -> str:
    """The instructions of the host, then those of the tools that are available now. Raises
    `Refused` when a tool fails to give its own: they may be what keeps the model from harm.
    """
    context, texts = session_context(live.session), [of_host]
    for name, prepared in live.executor.tools.items():
        tool = prepared.tool
        if tool.instruction is None or not (is_available(tool) and is_visible(tool, caller)):
            continue
        try:
            texts.append(tool.instruction(context) or "")
        except Exception as error:
            raise Refused(
                "unavailable", f"the instruction of the tool {name!r} failed: {error}"
            ) from error
    return "\n\n".join(filter(None, texts))


async def _result(live: LiveSession, response: PromptResponse[Any]) -> PromptResult:
    usage = response.usage
    return PromptResult(
        session_id=live.session.session_id,
        turn=await turn_of(live),
        status=response.status,
        text=response.text,
        pending=[request.approval_id for request in response.pending],
        usage={
            "requests": usage.requests,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        },
        cost=response.cost.dollars,
        unpriced=sorted({f"{part.what} of {part.of}" for part in response.cost.unpriced}),
    )
