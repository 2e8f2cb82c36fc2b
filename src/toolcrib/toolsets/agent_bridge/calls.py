"""The calls that pydantic-ai agents make, as calls and turns of the session.

Call ids come from models, and some models count from one in every conversation or every response.
An id alone does not identify a call: a call that waits for a decision must never be taken for
another one, and an id that has a result in the conversation names another call when it comes again.
The same call, taken up again from the history before its result, has the result that is recorded.
A turn of the session is a prompt and all runs that follow from it.
"""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pydantic_ai.exceptions import ApprovalRequired, CallDeferred

from toolcrib.approval.caller import Caller
from toolcrib.calls.call import calls_of
from toolcrib.calls.executor import begin_turn
from toolcrib.calls.recorded_call import MAX_ID_CHARS, repeated_id
from toolcrib.errors import InvalidDecision, ResultDeferred
from toolcrib.failures import Failure
from toolcrib.session.turns import OpenTurn, in_turn
from toolcrib.store.store import ask_store
from toolcrib.toolsets.agent_bridge import approvals
from toolcrib.toolsets.agent_bridge.tools import encode
from toolcrib.toolsets.agent_bridge.values import RunSignal, pack, result_of

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolReturnPart

    from toolcrib.calls.outcome import Outcome
    from toolcrib.session.session import Session
    from toolcrib.store.store import OpenCall
    from toolcrib.toolsets.run_executor import RunExecutor


TRANSPORT = "pydantic-ai"

logger = logging.getLogger(__name__)


def caller_of(run: RunContext[Any]) -> Caller:
    """The caller in the audit: the conversation of an agent."""
    return Caller(f"conversation:{run.conversation_id}", TRANSPORT)


def ids_of(run: RunContext[Any]) -> tuple[str, str]:
    """The ids that this call may have, the likeliest first; see `possible_ids`."""
    if run.tool_call_id is None:
        return possible_ids(f"call_{uuid.uuid4().hex}", 1, run.conversation_id)
    times = 1 + _counts_of(run).of(run.messages, run.tool_call_id)
    return possible_ids(run.tool_call_id, times, run.conversation_id)


_counts: OrderedDict[str, approvals.ResultCounts] = OrderedDict()
_MOST_COUNTED: Final = 256
"""Of how many runs the results are kept counted, the latest ones."""


def _counts_of(run: RunContext[Any]) -> approvals.ResultCounts:
    if run.run_id is None:
        return approvals.ResultCounts()
    counts = _counts.get(run.run_id)
    if counts is None:
        counts = _counts[run.run_id] = approvals.ResultCounts()
        if len(_counts) > _MOST_COUNTED:
            _counts.popitem(last=False)
    return counts


def possible_ids(tool_call_id: str, times: int, conversation_id: str | None) -> tuple[str, str]:
    """The ids of the call that a model names `tool_call_id` for the given time: that name, or a
    digest of it where a store would not take it; and, for when another call has this one, the same
    with the conversation's id.
    """
    name = tool_call_id if _is_usable(tool_call_id) else f"call_{_digest(tool_call_id)}"
    plain = repeated_id(name, times)
    qualified = f"{plain}@{conversation_id}"
    return plain, qualified if _is_usable(qualified) else f"call_{_digest(qualified)}"


async def waiting_calls(
    session: Session, run: RunContext[Any], name: str, arguments: bytes
) -> list[OpenCall]:
    """The open calls that this call of the agent may continue, the likeliest first."""
    ids = ids_of(run)[::-1]
    if calls_of(session).waiting.isdisjoint(ids):
        return []
    calls = [
        call
        for call in await ask_store(session.store, session.open_calls)
        if call.call_id in ids and call.tool.name == name and is_of(call, run, arguments)
    ]
    return sorted(calls, key=lambda call: ids.index(call.call_id))


def is_of(call: OpenCall, run: RunContext[Any], arguments: bytes | None = None) -> bool:
    """Whether an open call was made in this conversation or with these arguments."""
    is_with_them = arguments is not None and arguments in (call.arguments, call.submitted)
    return is_with_them or call.caller.principal == caller_of(run).principal


def free_id(session: Session, run: RunContext[Any]) -> str:
    """An id for a new call: the model's, unless another open call has it."""
    for call_id in ids_of(run):
        if call_id not in calls_of(session).waiting and call_id not in calls_of(session).claimed:
            return call_id
    return f"call_{uuid.uuid4().hex}"


def _is_usable(call_id: str) -> bool:
    return len(call_id) <= MAX_ID_CHARS and call_id.isprintable()


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _RunTurn:
    """The turn of a run. It holds no session: the session could never be collected then."""

    run_id: str | None
    number: int
    parent_call_id: str | None = None
    parent_turn: int | None = None
    depth: int = 0


_last_turns: WeakKeyDictionary[Session, dict[str | None, _RunTurn]] = WeakKeyDictionary()
"""The turn of the last run of each conversation, by session: toolsets may share one."""


def turn_of(executor: RunExecutor, run: RunContext[Any], waiting: OpenCall | None) -> OpenTurn:
    """The turn that a call of a run belongs to, for this one call.

    A run without a prompt continues the turn before it. Where another process began that turn, the
    `waiting` call has its number.
    """
    session = executor.session
    conversations = _last_turns.setdefault(session, {})
    last = conversations.get(run.conversation_id)
    if last is not None and (last.run_id == run.run_id or run.prompt is None):
        turn = replace(last, run_id=run.run_id)
    elif waiting is not None and run.prompt is None:
        turn = _RunTurn(run.run_id, waiting.turn)
    else:
        turn = _begin(executor, run)
    conversations[run.conversation_id] = turn
    # No caller, even in an agent that a tool runs: the agent reports waiting calls to the tool.
    return OpenTurn(session, turn.number, turn.parent_call_id, turn.parent_turn, depth=turn.depth)


def _begin(executor: RunExecutor, run: RunContext[Any]) -> _RunTurn:
    turn = begin_turn(executor.session, executor.limits.max_depth)
    return _RunTurn(run.run_id, turn.number, turn.parent_call_id, turn.parent_turn, turn.depth)


class AgentCalls:
    """Makes the calls of agents on the executor and returns their results to the agent."""

    def __init__(self, executor: RunExecutor) -> None:
        self._executor = executor
        self._session = executor.session
        self._sent: dict[str, bytes] = {}
        """The arguments of waiting calls by call id, as the agent passed them to the hooks."""

    async def call(self, name: str, args: dict[str, Any], run: RunContext[Any]) -> Any:
        """Call a tool for an agent, or continue a call that waited for a decision.

        Raises pydantic-ai's `ApprovalRequired` when a person must decide first.
        """
        arguments = encode(args)
        session = self._session
        waiting = (
            await self._waiting_call(name, arguments, run) if calls_of(session).waiting else None
        )
        problem = None
        if waiting is not None and run.tool_call_approved:
            problem = await self._approve(run, waiting, arguments)
        call_id = free_id(session, run) if waiting is None else waiting.call_id
        try:
            with in_turn(turn_of(self._executor, run, waiting)):
                outcome = await self._executor.call_in_run(
                    run,
                    name,
                    # Those of a waiting call are frozen, whatever an approval has edited since.
                    arguments if waiting is None else None,
                    call_id=call_id,
                    caller=caller_of(run),
                )
        except RunSignal as error:
            raise error.signal from None
        return self._result(outcome, arguments, problem)

    async def refuse(
        self, name: str, raw: bytes, run: RunContext[Any], *, reason: str | None = None
    ) -> None:
        """Record a call whose arguments are invalid; nothing runs. A `reason` is that of a check
        which the executor does not know.
        """
        with in_turn(turn_of(self._executor, run, None)):
            await self._executor.refuse(
                name, raw, reason, call_id=free_id(self._session, run), caller=caller_of(run)
            )

    async def settle(self, run: RunContext[Any]) -> None:
        """End the waiting calls that have a result in the conversation.

        An application that denies a call, or answers in its place, tells the agent and not the
        toolset.
        """
        session = self._session
        if not calls_of(session).waiting:
            return
        calls = [
            call
            for call in await ask_store(session.store, session.open_calls)
            if call.tool.name in self._executor.tools
            and call.call_id not in calls_of(session).claimed
            and is_of(call, run)
        ]
        by_id = {call.call_id: call for call in calls}
        for tool_call_id, times, answer in approvals.answers(run.messages) if by_id else ():
            ids = possible_ids(tool_call_id, times, run.conversation_id)
            for call_id in by_id.keys() & set(ids):
                await self._end(run, by_id[call_id], answer)

    async def _end(self, run: RunContext[Any], call: OpenCall, answer: ToolReturnPart) -> None:
        call_id, text = call.call_id, answer.model_response_str()
        self._sent.pop(call_id, None)
        if call.state == "deferred":
            is_failed = answer.outcome != "success"
            failure = Failure("tool_error", text) if is_failed else None
            value = None if is_failed else pack(answer.content)
            await self._executor.complete(call_id, value, failure=failure)
        elif answer.outcome == "denied" and await approvals.deny(self._session, run, call_id, text):
            await self._executor.resume([call_id])
        else:
            await self._executor.withdraw(call_id)

    async def _waiting_call(
        self, name: str, arguments: bytes, run: RunContext[Any]
    ) -> OpenCall | None:
        calls = await waiting_calls(self._session, run, name, arguments)
        for call in calls:
            if self._has_same_arguments(run, call, arguments):
                return call
        # Only an approval may edit the arguments. A model that sends others has used the id of a
        # waiting call for a new one.
        return calls[0] if calls and run.tool_call_approved else None

    async def _approve(
        self, run: RunContext[Any], waiting: OpenCall, arguments: bytes
    ) -> str | None:
        """Decide as the run context says; returns why the decision was not accepted, if so."""
        edited = None
        if not self._has_same_arguments(run, waiting, arguments):
            edited = approvals.edit_of(self._executor.tools[waiting.tool.name], waiting, arguments)
        try:
            await approvals.approve(self._session, run, waiting, edited)
        except InvalidDecision as error:
            logger.warning("an approval of call %s was not accepted: %s", waiting.call_id, error)
            return str(error)
        return None

    def _has_same_arguments(
        self, run: RunContext[Any], waiting: OpenCall, arguments: bytes
    ) -> bool:
        """Whether a waiting call was made with these arguments; others are an edit.

        Hooks may have rewritten the frozen arguments. Another process knows those that the model
        sent only from the conversation.
        """
        if arguments in (waiting.arguments, waiting.submitted):
            return True
        if waiting.call_id in self._sent:
            return arguments == self._sent[waiting.call_id]
        if not self._executor.has_pre_hooks(waiting.tool.name):
            return False
        return arguments == approvals.sent_arguments(run.messages, run.tool_call_id)

    def _result(self, outcome: Outcome, arguments: bytes, problem: str | None) -> Any:
        tool = self._executor.tools.get(outcome.tool)
        if outcome.status != "waiting":
            self._sent.pop(outcome.call_id, None)
            return result_of(outcome, tool)
        if isinstance(outcome.error, ResultDeferred):
            metadata = outcome.error.metadata
            raise CallDeferred(None if metadata is None else dict(metadata))
        self._sent.setdefault(outcome.call_id, arguments)
        if outcome.approval is None or tool is None:
            raise ApprovalRequired
        raise ApprovalRequired(approvals.metadata_for(outcome.approval, tool, arguments, problem))
