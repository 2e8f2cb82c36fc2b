"""What becomes of calls when this process cannot count on its lease any more.

Nothing starts without a lease, and what runs is stopped before another process may take the
session. Nothing of it is recorded here: the next writer finds those calls in doubt.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from toolcrib.errors import LeaseLost

if TYPE_CHECKING:
    from toolcrib.calls.call import Call, SessionCalls
    from toolcrib.session.session import Session

logger = logging.getLogger(__name__)


def stop_when_lost(session: Session, calls: SessionCalls) -> None:
    """Stop the calls of a session as soon as its lease is lost."""

    def lose() -> None:
        calls.is_lost = True
        for call in list(calls.running.values()):
            if call.task is not None:
                # A loop that is closed runs nothing.
                with suppress(RuntimeError):
                    call.task.get_loop().call_soon_threadsafe(_stop, call, calls)

    session.store.watch_lease(session.lease, lose)


def _stop(call: Call, calls: SessionCalls) -> None:
    if calls.running.get(call.call_id) is call and call.task is not None:
        # Counted first, as for every call that is cancelled alone.
        call.cancels += 1
        call.task.cancel()


def not_started(call: Call) -> LeaseLost:
    """The error of a call whose handler was not begun because the lease was lost before."""
    return LeaseLost(
        f"`{call.name}` was not started: this process could not renew its lease on session "
        f"{call.session.session_id!r} in time, and another one may write it by now; open the "
        "session again"
    )


def stopped(call: Call) -> LeaseLost:
    """The error of a call that was stopped because the lease was lost."""
    if call.is_left_running:
        logger.error(
            "call %s of %s runs on in a thread that cannot be stopped, though this process may not "
            "write session %s any more: what it still does, another process may do too",
            call.call_id,
            call.name,
            call.session.session_id,
        )
    return LeaseLost(
        f"`{call.name}` was stopped: this process could not renew its lease on session "
        f"{call.session.session_id!r} in time; whoever opens the session finds the call in doubt"
    )
