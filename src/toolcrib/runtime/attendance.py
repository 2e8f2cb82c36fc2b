"""Whether somebody is there for the calls of a live session: to decide about a call within another
one while that runs, or to answer a question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from toolcrib.runtime.live_session import wait_at_most
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.runtime.live_session import LiveSession

POLL_SECONDS = 1.0
"""How often the store is read for decisions of other processes."""

_IN_PROCESS: Final = (None, "cli")
"""Transports without a connection over which anybody could answer."""

_waits: Final[ContextVar[bool]] = ContextVar("toolcrib_waits", default=True)


@contextmanager
def waiting_allowed(is_allowed: bool) -> Generator[None]:
    """Say whether calls within may wait for a decision while the call around them runs."""
    before = _waits.get()
    _waits.set(is_allowed)
    try:
        yield
    finally:
        _waits.set(before)


class LiveAttendance:
    """The people behind a live session: those at its connections, and those who read its inbox."""

    def __init__(self, live: LiveSession) -> None:
        self._live = live

    def has_responders(self, caller: Caller) -> bool:
        """Whether somebody may answer a question: the call came over a connection, or somebody
        follows the session.
        """
        return caller.transport not in _IN_PROCESS or self._live.is_followed

    def has_approvers(self, caller: Caller) -> bool:
        """Whether a call within another one may wait for a decision."""
        return _waits.get() and self.has_responders(caller)

    async def decided(self, request: ApprovalRequest) -> bool:
        """Wait until the request is decided or expires; False when the session is closing."""
        return await _decided(self._live, (request,))


async def decided(live: LiveSession, pending: Sequence[ApprovalRequest]) -> bool:
    """Wait until one of the requests is decided, in any process, or expires; False when the
    session is closing.
    """
    try:
        return await _decided(live, pending)
    except asyncio.CancelledError:
        # Closing cancels the prompts of a session; one that waits for approval loses nothing.
        if not live.is_closing:
            raise
    return False


async def _decided(live: LiveSession, pending: Sequence[ApprovalRequest]) -> bool:
    while not live.is_closing:
        # Before the store is read: a decision during the read must not be slept through.
        decision = live.next_decision
        for request in pending:
            if await _is_over(live, request):
                return True
        await wait_at_most(decision, _poll_delay(live, pending))
    return False


def _poll_delay(live: LiveSession, pending: Sequence[ApprovalRequest]) -> float:
    """How long to wait before the store is read again, at most until the first deadline."""
    now = live.session.clock()
    remaining = [request.deadline - now for request in pending if request.deadline is not None]
    return max(0.0, min([POLL_SECONDS, *remaining]))


async def _is_over(live: LiveSession, request: ApprovalRequest) -> bool:
    session = live.session
    if request.deadline is not None and session.clock() >= request.deadline:
        return True
    filed = await ask_store(session.store, session.store.approval, request.approval_id)
    return filed is None or filed.state != "pending"
