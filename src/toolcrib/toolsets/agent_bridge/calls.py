"""The calls that a pydantic-ai agent makes of a toolset's tools.

Which call of the session a call of an agent is.

The ids come from models. Some count from one in every conversation, so an id alone does not say
whose call it is; and a call that waits must never be taken for another one.

Agent runs as turns of the session: a prompt, and all that follows from it.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pydantic_ai.exceptions import ApprovalRequired

from toolcrib.calls.call import Caller
from toolcrib.calls.executor import MAX_ID_CHARS
from toolcrib.calls.nested_calls import begin_turn
from toolcrib.errors import InvalidDecision
from toolcrib.session.turns import OpenTurn, in_turn
from toolcrib.store.store import ask_store
from toolcrib.toolsets.agent_bridge import approvals
from toolcrib.toolsets.agent_bridge.arguments import encode
from toolcrib.toolsets.agent_bridge.values import Passing, result_of

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from toolcrib.calls.outcome import Outcome
    from toolcrib.session.session import Session
    from toolcrib.store.store import OpenCall
    from toolcrib.toolsets.run_executor import RunExecutor


TRANSPORT = "pydantic-ai"


def caller_of(run: RunContext[Any]) -> Caller:
    """Who calls, for the audit: the conversation of an agent."""
    return Caller(f"conversation:{run.conversation_id}", TRANSPORT)


def plain_id(run: RunContext[Any]) -> str:
    """The id that the model gave the call, in a form that every store takes."""
    given = run.tool_call_id or f"call_{uuid.uuid4().hex}"
    return given if _is_usable(given) else f"call_{_digest(given)}"


def own_id(run: RunContext[Any]) -> str:
    """The same id, made this conversation's own: for when another call has the plain one."""
    qualified = f"{plain_id(run)}@{run.conversation_id}"
    return qualified if _is_usable(qualified) else f"call_{_digest(qualified)}"


async def waiting_calls(
    session: Session, run: RunContext[Any], name: str, given: bytes
) -> list[OpenCall]:
    """The open calls that this call of the agent may go on with, the likeliest first."""
    ids = [own_id(run), plain_id(run)]
    if session.waiting.isdisjoint(ids):
        return []
    found = [
        call
        for call in await ask_store(session.store, session.open_calls)
        if call.call_id in ids and call.tool.name == name and is_of(call, run, given)
    ]
    return sorted(found, key=lambda call: ids.index(call.call_id))


def is_of(call: OpenCall, run: RunContext[Any], given: bytes | None = None) -> bool:
    """Whether an open call was made in this conversation, or is the same call anyhow."""
    return call.principal == caller_of(run).principal or call.arguments == given


def free_id(session: Session, run: RunContext[Any]) -> str:
    """An id for a new call: the model's own unless another call has it now."""
    for call_id in (plain_id(run), own_id(run)):
        if call_id not in session.waiting and call_id not in session.claimed:
            return call_id
    return f"call_{uuid.uuid4().hex}"


def _is_usable(call_id: str) -> bool:
    return len(call_id) <= MAX_ID_CHARS and call_id.isprintable()


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _RunTurn:
    """The turn of a run. It must not hold the session, which would never be let go then."""

    run_id: str | None
    number: int
    parent_call_id: str | None = None
    parent_turn: int | None = None
    depth: int = 0


_last: WeakKeyDictionary[Session, dict[str | None, _RunTurn]] = WeakKeyDictionary()
"""The last run of each conversation: by session, because toolsets may share one."""


def turn_of(executor: RunExecutor, run: RunContext[Any], found: OpenCall | None) -> OpenTurn:
    """The turn that a call of a run belongs to, for this one call.

    A run without a prompt goes on with the turn before it. Where another process began that turn,
    the call that has waited since, `found`, knows its number.
    """
    session = executor.session
    conversations = _last.setdefault(session, {})
    last = conversations.get(run.conversation_id)
    if last is not None and (last.run_id == run.run_id or run.prompt is None):
        now = replace(last, run_id=run.run_id)
    elif found is not None and run.prompt is None:
        now = _RunTurn(run.run_id, found.turn)
    else:
        now = _begin(executor, run)
    conversations[run.conversation_id] = now
    # Without a caller, also in an agent that a tool runs: it can tell the tool which calls wait.
    return OpenTurn(session, now.number, now.parent_call_id, now.parent_turn, depth=now.depth)


def _begin(executor: RunExecutor, run: RunContext[Any]) -> _RunTurn:
    turn = begin_turn(executor.session, executor.limits.max_depth)
    return _RunTurn(run.run_id, turn.number, turn.parent_call_id, turn.parent_turn, turn.depth)


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
            for call in await ask_store(session.store, session.open_calls)
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
