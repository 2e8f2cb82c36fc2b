"""Prompts of a session: asked, gone on with after a decision, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import EvaluationReason, PromptEvaluationError, Refused, UsageError
from toolcrib.ledger.events import PromptStarted
from toolcrib.ledger.record import events
from toolcrib.prompt.prompt import Prompt
from toolcrib.prompt.section import MarkdownSection
from toolcrib.runtime.live_session import wait_at_most
from toolcrib.runtime.messages import PromptResult, PromptStatus
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.adapters.response import PromptResponse
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.calls.call import Caller
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.store.store import OpenCall

POLL_SECONDS = 1.0
"""How often a decision is looked for that may be made in another process."""

_UNFINISHED: Final = "prompt"
"""Where a session keeps the text of the prompt that it is in the middle of."""


@dataclass(frozen=True, slots=True)
class PromptRunner:
    """One session, the model that answers it, what that is told before every prompt, and on whose
    behalf it calls tools.
    """

    held: LiveSession
    adapter: PromptAdapter
    instructions: str
    caller: Caller

    async def answer(self, text: str, *, waits: bool) -> PromptResult:
        """Have the model answer, waiting for the people whose approval it takes. A prompt that
        the session was in the middle of is given up.
        """
        await abandon_prompt(self.held)
        self.held.session.set_host_setting(_UNFINISHED, text)
        return await self._until_answered(text, self.adapter.evaluate_async, waits=waits)

    async def go_on(self, *, waits: bool) -> PromptResult:
        """Go on with the prompt that the session is in the middle of. Raises `Refused`
        (conflict) when there is none, or it cannot go on as it was.
        """
        text = self.held.session.host_setting(_UNFINISHED)
        if text is None:
            raise Refused("conflict", "the session is not in the middle of a prompt; send one")
        return await self._until_answered(text, self.adapter.resume_async, waits=waits)

    async def _until_answered(
        self, text: str, ask: Callable[..., Awaitable[PromptResponse[Any]]], *, waits: bool
    ) -> PromptResult:
        held = self.held
        try:
            response = await self._ask(text, ask)
            while response.status == "waiting" and waits and await _decided(held, response.pending):
                response = await self._ask(text, self.adapter.resume_async)
        except asyncio.CancelledError:
            # What is closed goes on later, elsewhere; only what is cancelled is given up.
            if not held.is_closing:
                await abandon_prompt(held)
            raise
        except PromptEvaluationError as error:
            return await prompt_without_answer(held, "failed", str(error), error.reason)
        except UsageError as error:
            raise Refused("conflict", str(error)) from None
        if response.status != "waiting":
            held.session.set_host_setting(_UNFINISHED, None)
        return await _result(held, response)

    async def _ask(
        self, text: str, ask: Callable[..., Awaitable[PromptResponse[Any]]]
    ) -> PromptResponse[Any]:
        """Ask about the session's tools of now."""
        session = self.held.session
        tools = {name: each.tool for name, each in self.held.executor.tools.items()}
        prompt = _prompt(list(tools.values()), self.instructions, text)
        governance = self.held.governance(tools, self.caller)
        return await ask(prompt, session=session, governance=governance, stream=True, follows=True)


async def abandon_prompt(held: LiveSession) -> bool:
    """End the prompt that a session is in the middle of: what it waits for can no longer be
    approved. False when there is none.
    """
    session = held.session
    if session.host_setting(_UNFINISHED) is None:
        return False
    session.set_host_setting(_UNFINISHED, None)
    turn = await turn_of(held)
    for call in await ask_store(session.store, session.open_calls):
        if _is_of_prompt(call, turn):
            # Somebody may have taken it up, or ended it, since it was read.
            with suppress(UsageError):
                await held.executor.withdraw(call.call_id)
    await ask_store(session.store, session.save_settings)
    return True


def _is_of_prompt(call: OpenCall, turn: int) -> bool:
    """Whether the model made a call in this turn. Others may call meanwhile, without a model."""
    return call.turn == turn and call.is_by_model and call.state == "waiting"


async def turn_of(held: LiveSession) -> int:
    """The turn of the prompt that was asked last; what calls ask on the way does not count."""
    session = held.session

    def look() -> int:
        starts = events(session.records(kinds=(PromptStarted.kind,), newest_first=True))
        for start in starts:
            if isinstance(start, PromptStarted) and start.parent_call_id is None:
                return start.turn
        return 0

    return await ask_store(session.store, look)


async def prompt_without_answer(
    held: LiveSession,
    status: PromptStatus,
    error: str | None = None,
    reason: EvaluationReason | None = None,
) -> PromptResult:
    """What is told of a prompt without an answer."""
    session_id, turn = held.session.session_id, await turn_of(held)
    return PromptResult(session_id=session_id, turn=turn, status=status, error=error, reason=reason)


def _prompt(tools: list[Any], instructions: str, text: str) -> Prompt[Any]:
    """A prompt with the session's tools. The text is a person's, not a template."""
    sections: list[MarkdownSection[Any]] = []
    if instructions:
        sections.append(
            MarkdownSection(title="Instructions", key="instructions", template=_plain(instructions))
        )
    sections.append(MarkdownSection(title="Task", key="task", template=_plain(text), tools=tools))
    return Prompt(ns="session", key="prompt", sections=sections)


def _plain(text: str) -> str:
    return text.replace("$", "$$")


async def _decided(held: LiveSession, pending: tuple[ApprovalRequest, ...]) -> bool:
    """Wait until one of the requests is decided, here or in another process, or runs out of time;
    False when the session is closing.
    """
    try:
        while not held.is_closing:
            # Before the look: a decision that is made during it must not be slept through.
            decision = held.next_decision
            for request in pending:
                if await _is_over(held, request):
                    return True
            await wait_at_most(decision, _patience(held, pending))
    except asyncio.CancelledError:
        # A session that is closed cancels its prompts; one that only waits has lost nothing.
        if not held.is_closing:
            raise
    return False


def _patience(held: LiveSession, pending: tuple[ApprovalRequest, ...]) -> float:
    """How long to wait before the next look: until something may have been decided elsewhere, or
    until the first deadline.
    """
    now = held.session.clock()
    left = [each.deadline - now for each in pending if each.deadline is not None]
    return max(0.0, min([POLL_SECONDS, *left]))


async def _is_over(held: LiveSession, request: ApprovalRequest) -> bool:
    session = held.session
    if request.deadline is not None and session.clock() >= request.deadline:
        return True
    filed = await ask_store(session.store, session.store.approval, request.approval_id)
    return filed is None or filed.state != "pending"


async def _result(held: LiveSession, response: PromptResponse[Any]) -> PromptResult:
    usage = response.usage
    return PromptResult(
        session_id=held.session.session_id,
        turn=await turn_of(held),
        status=response.status,
        text=response.text,
        pending=[each.approval_id for each in response.pending],
        usage={
            "requests": usage.requests,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        },
    )
