"""Whether a call needs a decision, and the gate that takes it, loaded with the first such call.

Most programs without a policy never ask anybody, and the gate brings policies, patterns, grants
and approvers with it: half of the time that the import of an executor would take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.call import Call
    from toolcrib.calls.gate import Gate
    from toolcrib.session.session import Session


class LazyGate:
    """The gate of one executor."""

    def __init__(self, session: Session, policy: Policy | None, approver: Approver | None) -> None:
        self._session = session
        self._policy = policy
        self._approver = approver
        self._gate: Gate | None = None

    def must_decide(self, call: Call) -> bool:
        """False when there is nothing to decide: no policy, and nobody asks about this tool."""
        return (
            self._policy is not None
            or call.tool.tool.requires_approval
            or call.approval_metadata is not None
            or bool(self._session.need_user_approve_tools)
        )

    def get(self) -> Gate:
        """The gate itself."""
        if self._gate is None:
            from toolcrib.calls.gate import Gate

            self._gate = Gate(self._session, self._policy, self._approver)
        return self._gate
