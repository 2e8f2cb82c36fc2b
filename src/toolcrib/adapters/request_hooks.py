"""The hooks of a host around a prompt, its turn, and the requests of the turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.items import tool_calls
from toolcrib.calls.lifecycle import (
    HookedPrompt,
    HookedReply,
    HookedRequest,
    HookedTurn,
    first_refusal,
    refusal_of,
    tell_hooks,
)
from toolcrib.errors import EvaluationPhase, PromptEvaluationError
from toolcrib.session.turns import call_here

if TYPE_CHECKING:
    from toolcrib.adapters.history import Conversation, ReplyItems
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.prompt.prompt import RenderedPrompt


class PromptHooks:
    """Runs the hooks for one prompt. A refusal, or a hook that fails, is a
    `PromptEvaluationError`.
    """

    def __init__(self, prompt: RenderedPrompt[Any], tools: TurnTools, model: str | None) -> None:
        self._prompt = prompt
        self._tools = tools
        self._model = model
        self._hooks = hooks = tools.executor.governance.hooks
        self._before = () if hooks is None else hooks.of("before_request")
        self._after = () if hooks is None else hooks.of("after_request")
        self._session_id = tools.executor.session.session_id

    async def submitted(self) -> None:
        """The prompt was submitted; nothing has been recorded or sent."""
        if self._hooks is None:
            return
        caller, call = self._tools.executor.governance.caller, call_here()
        facts = HookedPrompt(
            session_id=self._session_id,
            prompt_name=self._prompt.name,
            text=self._prompt.text,
            principal=caller.principal if caller else None,
            transport=caller.transport if caller else None,
            parent_call_id=call.call_id if call else None,
        )
        self._check(await refusal_of(self._hooks, "prompt_submitted", facts), "render")

    @asynccontextmanager
    async def around_turn(
        self, number: int, *, is_resumed: bool = False
    ) -> AsyncGenerator[list[str]]:
        """The turn begins, or goes on, and ends. The block puts the outcome into the list that it
        gets.
        """
        outcome: list[str] = []
        try:
            if not is_resumed:
                facts = self._turn(number, None)
                self._check(await refusal_of(self._hooks, "turn_started", facts), "request")
            yield outcome
        finally:
            ended = self._turn(number, outcome[-1] if outcome else "failed")
            await tell_hooks(self._hooks, "turn_ended", ended)

    async def before(self, conversation: Conversation, number: int, step: int) -> None:
        """A request is about to be sent."""
        if not self._before:
            return
        facts = HookedRequest(
            session_id=self._session_id,
            turn=number,
            step=step,
            model=self._model,
            prompt_name=self._prompt.name,
            tools=tuple(self._tools.executor.tools),
            messages=tuple(conversation.unsent),
        )
        self._check(await first_refusal(self._before, facts), "request")

    async def after(self, content: ReplyItems, number: int, step: int) -> None:
        """A reply has come and is recorded; nothing of it was acted on."""
        if not self._after:
            return
        facts = HookedReply(
            session_id=self._session_id,
            turn=number,
            step=step,
            model=content.model or self._model,
            prompt_name=self._prompt.name,
            calls=tuple(call.name for call in tool_calls(content.items)),
            usage=content.usage.tokens,
            items=tuple(content.items),
        )
        reason = await first_refusal(self._after, facts)
        self._check(reason, "response", content.request_id)

    def _turn(self, number: int, outcome: str | None) -> HookedTurn:
        return HookedTurn(
            session_id=self._session_id,
            turn=number,
            prompt_name=self._prompt.name,
            outcome=outcome,
        )

    def _check(
        self, reason: str | None, phase: EvaluationPhase, request_id: str | None = None
    ) -> None:
        if reason is not None:
            raise PromptEvaluationError(
                reason, prompt_name=self._prompt.name, phase=phase, request_id=request_id
            )
