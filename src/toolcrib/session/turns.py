"""Where code runs: in which turn, and in which call of it.

Both follow the code into the tasks and threads that it starts, so that a prompt which a handler
evaluates is known to be part of the handler's call, and parallel ones are told apart.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.session.session import Session


class RunningCall(Protocol):
    """A call while its hooks, its approver or its handler run."""

    @property
    def session(self) -> Session: ...

    @property
    def call_id(self) -> str: ...

    @property
    def name(self) -> str:
        """The name of the tool."""
        ...

    @property
    def turn(self) -> int: ...

    @property
    def caller(self) -> Caller | None:
        """Who asked for the call."""
        ...

    @property
    def ends_at(self) -> float | None:
        """When what runs in the call must be over, in the loop's time; None is no limit."""
        ...

    @property
    def is_over(self) -> bool: ...

    @property
    def is_left_running(self) -> bool:
        """True when the handler could not be stopped and goes on without the call."""
        ...


@dataclass(slots=True, eq=False)
class OpenTurn:
    """A turn in progress. `caller` is the call that it is part of, while that call runs."""

    session: Session
    number: int
    parent_call_id: str | None = None
    parent_turn: int | None = None
    caller: RunningCall | None = None
    depth: int = 0
    """How many calls, of whatever session, this turn is within."""
    outer: OpenTurn | None = None
    is_over: bool = False


CALL_HERE: Final[ContextVar[RunningCall | None]] = ContextVar("toolcrib_call", default=None)
_turn_here: Final[ContextVar[OpenTurn | None]] = ContextVar("toolcrib_turn", default=None)


def turn_here(session: Session | None = None) -> OpenTurn | None:
    """The turn that the running code is part of: of this session, or of any."""
    turn = _turn_here.get()
    while turn is not None and (
        turn.is_over or (session is not None and turn.session is not session)
    ):
        turn = turn.outer
    return turn


def call_here(session: Session | None = None) -> RunningCall | None:
    """The call that the running code is part of: of this session, or of any."""
    call = CALL_HERE.get()
    # A task that a handler left behind inherited a call that is no more.
    if call is None or call.is_over or (session is not None and call.session is not session):
        return None
    return call


def caller_here() -> Caller | None:
    """Who asked for the call that the running code is part of, of whatever session."""
    call = call_here()
    return None if call is None else call.caller


@contextmanager
def in_call(call: RunningCall) -> Generator[None]:
    """Let the code within be part of a call."""
    before = CALL_HERE.get()
    CALL_HERE.set(call)
    try:
        yield
    finally:
        # Not by token: a coroutine may be closed in another context than the one it ran in.
        if CALL_HERE.get() is call:
            CALL_HERE.set(before)


@contextmanager
def in_turn(turn: OpenTurn) -> Generator[OpenTurn]:
    """Let the code within be part of a turn."""
    before = _turn_here.get()
    # Not what is over: tasks that outlive their turn and begin the next would make a chain.
    turn.outer = turn_here()
    _turn_here.set(turn)
    try:
        yield turn
    finally:
        turn.is_over = True
        if _turn_here.get() is turn:
            _turn_here.set(before)
