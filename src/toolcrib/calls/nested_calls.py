"""Nested calls: which tools a tool may call, and how deep.

A turn that begins inside a call, or continues there, is bound to that call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from toolcrib.approval.caller import NOBODY
from toolcrib.calls.emitter import emitter_of
from toolcrib.calls.person_wait import hard_deadline, waiting_for_person
from toolcrib.errors import CallEnded, CallFailed
from toolcrib.failures import Failure, FailureKind
from toolcrib.ledger.events import TurnStarted
from toolcrib.session.turns import CALL_HERE, OpenTurn, call_here, turn_here

if TYPE_CHECKING:
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.calls.call import Call
    from toolcrib.calls.executor import Executor
    from toolcrib.calls.outcome import Outcome
    from toolcrib.session.session import Session
    from toolcrib.tools.context import ToolContext


def check_nesting(call: Call, parent: Call, max_depth: int) -> None:
    """End a nested call that its caller may not make, that goes too deep, or that is a cycle."""
    if parent.is_over:
        # Its handler was given up, or kept the context: nothing bounds what it does any more.
        raise CallEnded(
            "cancelled", f"The call of `{parent.name}` is over; it can call nothing more."
        )
    if call.name not in parent.tool.tool.uses:
        raise CallEnded(
            "not_permitted",
            f"`{parent.name}` may not call `{call.name}`; it must list the tool in `uses`.",
        )
    chain = [call.name]
    ancestor: Call | None = parent
    while ancestor is not None:
        chain.append(ancestor.name)
        ancestor = ancestor.parent
    if call.name in chain[1:]:
        path = " -> ".join(reversed(chain))
        raise CallEnded("recursion_limit", f"The tools call each other in a circle: {path}.")
    if call.depth > max_depth:
        raise CallEnded("recursion_limit", f"Tools call tools more than {max_depth} deep.")


async def wait_for_decision(call: Call, request: ApprovalRequest) -> bool:
    """Wait for a decision about a call while the call around it runs; False at once where nobody
    is there to decide meanwhile. The time limits of the calls around it stand still.

    Ends the call when its caller's deadline passes first, or the session is closed.
    """
    session = call.session
    attendance = session.attendance
    if session.unanswered == "deny" or attendance is None:
        return False
    if not attendance.has_approvers(call.caller or NOBODY):
        return False
    asked_at = session.clock()
    try:
        with waiting_for_person(call, runs=False):
            async with asyncio.timeout_at(hard_deadline(call)):
                is_decided = await attendance.decided(request)
    except TimeoutError:
        raise CallEnded("expired", f"Nobody decided about `{call.name}` in time.") from None
    finally:
        call.waited += max(0.0, session.clock() - asked_at)
    if not is_decided:
        raise CallEnded("cancelled", f"The session closed before `{call.name}` was decided.")
    return True


class CallBinding:
    """Ties a `ToolContext` to its call."""

    __slots__ = ("_call", "_executor")

    def __init__(self, executor: Executor, call: Call) -> None:
        self._executor = executor
        self._call = call

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        return await self._executor.call_nested(self._call, name, arguments)

    async def ask(
        self,
        text: str,
        answer: Any,
        *,
        choices: Sequence[str] | None,
        is_secret: bool,
        seconds: float | None,
    ) -> Any:
        from toolcrib.calls.questions import ask_person

        executor = self._executor
        return await ask_person(
            self._call,
            executor.responder,
            text,
            answer,
            choices=choices,
            is_secret=is_secret,
            seconds=executor.limits.question_seconds if seconds is None else seconds,
        )

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        emitter_of(self._call).progress(current, total, message)

    def output(self, chunk: str) -> None:
        emitter_of(self._call).output(chunk)

    def emit(self, type: str, data: Any) -> None:
        emitter_of(self._call).emit(type, data)


def current_context() -> ToolContext | None:
    """The context of the call that the running code is part of, for code that is not given one:
    tools of agents get the context of their run. None outside of calls, and in handlers that take
    no context.
    """
    call = call_here()
    return None if call is None else cast("Call", call).context


def begin_turn(session: Session, max_depth: int) -> OpenTurn:
    """A new turn, as part of the call that the running code is part of.

    Raises `CallFailed` when that call is given up, or is itself too deep within calls.
    """
    depth = _depth(max_depth)
    caller = call_here(session)
    turn = OpenTurn(
        session,
        session.next_turn(),
        parent_call_id=caller.call_id if caller else None,
        parent_turn=caller.turn if caller else None,
        caller=caller,
        depth=depth,
    )
    session.note(
        TurnStarted(
            session_id=session.session_id,
            at=session.clock(),
            turn=turn.number,
            parent_call_id=turn.parent_call_id,
            parent_turn=turn.parent_turn,
        )
    )
    return turn


def go_on_with_turn(
    session: Session,
    number: int,
    max_depth: int,
    *,
    parent_call_id: str | None = None,
    parent_turn: int | None = None,
) -> OpenTurn:
    """A turn that began earlier, perhaps in another process, and is taken up again."""
    depth = _depth(max_depth)
    return OpenTurn(
        session, number, parent_call_id, parent_turn, caller=call_here(session), depth=depth
    )


def _depth(max_depth: int) -> int:
    call = CALL_HERE.get()
    if call is not None and call.is_over and call.is_left_running:
        # Its handler could not be stopped: nothing bounds what it does any more.
        raise _refused("cancelled", f"The call {call.call_id} is over; it can begin no turn.")
    outer = turn_here()
    depth = (outer.depth if outer else 0) + (1 if call_here() else 0)
    if depth > max_depth:
        raise _refused(
            "recursion_limit",
            f"Prompts are evaluated within calls more than {max_depth} deep.",
        )
    return depth


def _refused(kind: FailureKind, message: str) -> CallFailed:
    return CallFailed(Failure(kind, message))
