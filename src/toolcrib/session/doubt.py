"""What is known about a call that an earlier writer of the session started and did not finish."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from toolcrib.ledger.events import CallInDoubt

if TYPE_CHECKING:
    from toolcrib.store.store import OpenCall, Store


def found_in_doubt(
    store: Store, call: OpenCall, session_id: str, at: float
) -> tuple[CallInDoubt, OpenCall]:
    """The event that a call is in doubt, and the call as it lies beside the ledger from now on. A
    process of another machine, or one that only stands still, is not known to be dead.
    """
    is_gone = call.process is None or store.is_gone(call.process)
    until = None if is_gone else call.may_run_until
    doubt = CallInDoubt(
        session_id=session_id, at=at, call_id=call.call_id, tool=call.tool, may_run_until=until
    )
    return doubt, replace(call, state="in_doubt", may_run_until=until)
