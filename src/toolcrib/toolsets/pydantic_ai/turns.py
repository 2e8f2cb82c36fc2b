"""Agent runs as turns of the session: a prompt, and all that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from toolcrib.calls.turns import begin_turn
from toolcrib.session.turns import OpenTurn

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from toolcrib.session.session import Session
    from toolcrib.store.store import OpenCall
    from toolcrib.toolsets.run_executor import RunExecutor


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
