"""The calls that executors of one session work on now, shared by all executors of the session."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.session.session import Session


class SessionCalls:
    """Which calls run, wait or are being worked on in this process."""

    __slots__ = ("claimed", "running", "waiting")

    running: dict[str, Call]
    """Calls whose handler runs now, by id."""
    claimed: set[str]
    """Open calls that a task works on, so that no other task takes them up."""
    waiting: set[str]
    """Open calls that can be taken up again."""

    def __init__(self, waiting: Iterable[str]) -> None:
        self.running = {}
        self.claimed = set()
        self.waiting = set(waiting)

    @property
    def running_ids(self) -> Collection[str]:
        """The ids of the running calls; see `ExecutorState`."""
        return self.running.keys()

    def restore(self, waiting: Iterable[str]) -> None:
        """The session went on from a state in which these calls wait."""
        self.waiting.clear()
        self.waiting.update(waiting)

    def is_busy(self, call_id: str) -> bool:
        """Whether a call runs or is being worked on, so that its id is taken."""
        return call_id in self.running or call_id in self.claimed


def calls_of(session: Session) -> SessionCalls:
    """The shared calls of a session; the first executor attaches them."""
    state = session.executor_state
    if state is None:
        state = SessionCalls(call.call_id for call in session.open_calls())
        session.executor_state = state
    assert isinstance(state, SessionCalls), "only executors attach their state to a session"
    return state
