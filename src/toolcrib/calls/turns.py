"""Turns begin, and go on: each knows the call that it is part of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.calls.failure import Failure, FailureKind
from toolcrib.errors import CallFailed
from toolcrib.session.events import TurnStarted
from toolcrib.session.turns import CALL_HERE, OpenTurn, call_here, turn_here

if TYPE_CHECKING:
    from toolcrib.session.session import Session


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
