"""Approvals that come too early: a call whose process is not known to be dead may not run again
before its time is over.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolcrib.approval.decision import Approve
from toolcrib.errors import InvalidDecision

if TYPE_CHECKING:
    from toolcrib.approval.decision import ApprovalRequest, Decided


def time_text(at: float) -> str:
    """A time to the second, for people; the second after it, when it is not a whole one."""
    return datetime.fromtimestamp(math.ceil(at), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def why_too_early(request: ApprovalRequest, at: float) -> str | None:
    """Why a request cannot be approved at a time; None when it can."""
    if request.approvable_at is None or at >= request.approvable_at:
        return None
    return (
        f"It can be approved from {time_text(request.approvable_at)} on: until then the process "
        "that ran the call, which is not known to be dead, may still run it."
    )


def check_time(request: ApprovalRequest, decided: Decided) -> None:
    """Raise `InvalidDecision` for an approval that came too early."""
    reason = why_too_early(request, decided.at)
    if reason is not None and isinstance(decided.decision, Approve):
        raise InvalidDecision(
            f"request {request.approval_id} is not approved. {reason} Wait, or deny it"
        )
