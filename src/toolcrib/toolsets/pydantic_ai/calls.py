"""The calls that a pydantic-ai agent makes of a toolset's tools."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import ApprovalRequired

from toolcrib.errors import InvalidDecision
from toolcrib.session.turns import in_turn
from toolcrib.toolsets.pydantic_ai import approvals
from toolcrib.toolsets.pydantic_ai.arguments import encode
from toolcrib.toolsets.pydantic_ai.call_ids import (
    caller_of,
    free_id,
    is_of,
    waiting_calls,
)
from toolcrib.toolsets.pydantic_ai.results import result_of
from toolcrib.toolsets.pydantic_ai.signals import Passing
from toolcrib.toolsets.pydantic_ai.turns import turn_of

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from toolcrib.calls.outcome import Outcome
    from toolcrib.store.store import OpenCall
    from toolcrib.toolsets.run_executor import RunExecutor

logger = logging.getLogger(__name__)


class AgentCalls:
    """Takes calls of agents to the executor, and what became of them back."""

    def __init__(self, executor: RunExecutor) -> None:
        self._executor = executor
        self._session = executor.session
        self._given: dict[str, bytes] = {}
        """What calls that wait were given, before hooks rewrote it: to know it again."""

    async def call(self, name: str, args: dict[str, Any], run: RunContext[Any]) -> Any:
        """Call a tool for an agent, or go on with a call that it was told to wait for.

        Raises pydantic-ai's `ApprovalRequired` when a person must decide first.
        """
        given = encode(args)
        session = self._session
        found = await self._find(name, given, run) if session.waiting else None
        problem = None
        if found is not None and run.tool_call_approved:
            problem = await self._approve(run, found, given)
        call_id = free_id(session, run) if found is None else found.call_id
        try:
            with in_turn(turn_of(self._executor, run, found)):
                outcome = await self._executor.call_in_run(
                    run, name, given, call_id=call_id, caller=caller_of(run)
                )
        except Passing as passing:
            raise passing.signal from None
        return self._result(outcome, given, problem)

    async def refuse(self, name: str, raw: bytes, run: RunContext[Any]) -> None:
        """Write down a call whose arguments do not fit; nothing runs."""
        with in_turn(turn_of(self._executor, run, None)):
            await self._executor.call(
                name, raw, call_id=free_id(self._session, run), caller=caller_of(run)
            )

    async def settle(self, run: RunContext[Any]) -> None:
        """End the calls that wait here and have a result in the conversation: an application that
        denies a call, or answers in its place, tells the agent and not the toolset.
        """
        session = self._session
        if not session.waiting:
            return
        mine = [
            call
            for call in await session.ask_store(session.open_calls)
            if call.tool.name in self._executor.tools
            and call.call_id not in session.claimed
            and is_of(call, run)
        ]
        ids = {call.call_id.removesuffix(f"@{run.conversation_id}"): call.call_id for call in mine}
        for tool_call_id, answer in approvals.answers_to(run.messages, set(ids)).items():
            await self._end(run, ids[tool_call_id], answer.outcome, answer.model_response_str())

    async def _end(self, run: RunContext[Any], call_id: str, outcome: str, text: str) -> None:
        self._given.pop(call_id, None)
        if outcome == "denied" and await approvals.deny(self._session, run, call_id, text):
            await self._executor.resume([call_id])
        else:
            await self._executor.withdraw(call_id)

    async def _find(self, name: str, given: bytes, run: RunContext[Any]) -> OpenCall | None:
        found = await waiting_calls(self._session, run, name, given)
        for call in found:
            if self._is_as_asked(run, call, given):
                return call
        # Only who approves may come with other arguments. A model that does uses an id again
        # although the call that has it still waits.
        return found[0] if found and run.tool_call_approved else None

    async def _approve(self, run: RunContext[Any], found: OpenCall, given: bytes) -> str | None:
        """Decide as the run context says; returns why it could not be done."""
        edited = None
        if not self._is_as_asked(run, found, given):
            edited = approvals.edit_of(self._executor.tools[found.tool.name], found, given)
        try:
            await approvals.approve(self._session, run, found, edited)
        except InvalidDecision as error:
            logger.warning("an approval of call %s was not taken: %s", found.call_id, error)
            return str(error)
        return None

    def _is_as_asked(self, run: RunContext[Any], found: OpenCall, given: bytes) -> bool:
        """Whether these are the arguments that the call was asked about with; others are an edit.

        Where hooks rewrote them they are not those that were frozen, and another process knows
        what the model sent only from the conversation.
        """
        if found.call_id in self._given:
            return given in (found.arguments, self._given[found.call_id])
        if given == found.arguments or not self._executor.has_pre_hooks(found.tool.name):
            return given == found.arguments
        return given == approvals.sent_arguments(run.messages, run.tool_call_id)

    def _result(self, outcome: Outcome, given: bytes, problem: str | None) -> Any:
        tool = self._executor.tools.get(outcome.tool)
        if outcome.status != "waiting":
            self._given.pop(outcome.call_id, None)
            return result_of(outcome, tool)
        self._given.setdefault(outcome.call_id, given)
        if outcome.approval is None or tool is None:
            raise ApprovalRequired
        raise ApprovalRequired(approvals.metadata_for(outcome.approval, tool, given, problem))
