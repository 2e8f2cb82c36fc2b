"""The approvals and grants of the memory store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import RLock

from toolcrib.approval.decision import Decided
from toolcrib.approval.grant import Grant
from toolcrib.approval.request import ApprovalRequest
from toolcrib.errors import StoreError
from toolcrib.store.codec import take_out_edit
from toolcrib.store.store import ApprovalState, FiledApproval


class MemoryInbox:
    """The half of the memory store that people decide in; it owns the lock of both halves."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._approvals: dict[str, FiledApproval] = {}
        self._grants: dict[str, Grant] = {}

    def approvals(
        self, *, session_id: str | None = None, state: ApprovalState | None = None
    ) -> list[FiledApproval]:
        """The inbox, oldest first."""
        with self._lock:
            return [
                filed
                for filed in self._approvals.values()
                if session_id in (None, filed.request.session_id) and state in (None, filed.state)
            ]

    def approval(self, approval_id: str) -> FiledApproval | None:
        """One request of the inbox."""
        with self._lock:
            return self._approvals.get(approval_id)

    def decide(self, decided: Decided) -> bool:
        """Record the first decision that fits; later ones get False."""
        with self._lock:
            filed = self._approvals.get(decided.approval_id)
            if filed is None or filed.state != "pending" or filed.request.digest != decided.digest:
                return False
            self._approvals[decided.approval_id] = replace(filed, state="decided", decided=decided)
            return True

    def add_grant(self, grant: Grant) -> None:
        """Keep a new grant."""
        with self._lock:
            if grant.grant_id in self._grants:
                raise StoreError(f"there is already a grant {grant.grant_id!r}")
            self._grants[grant.grant_id] = grant

    def grants(self, *, tool_id: str | None = None) -> list[Grant]:
        """All grants, oldest first, dead ones too."""
        with self._lock:
            return [grant for grant in self._grants.values() if tool_id in (None, grant.tool_id)]

    def use_grant(self, grant_id: str, now: float) -> bool:
        """Take one use if the grant is live."""
        with self._lock:
            grant = self._grants.get(grant_id)
            if grant is None or not grant.is_live(now):
                return False
            self._grants[grant_id] = grant.spend()
            return True

    def revoke_grant(self, grant_id: str, now: float) -> bool:
        """End a live grant."""
        with self._lock:
            grant = self._grants.get(grant_id)
            if grant is None or not grant.is_live(now):
                return False
            self._grants[grant_id] = grant.revoke(now)
            return True

    def _check_new(self, requests: Sequence[ApprovalRequest]) -> None:
        for request in requests:
            if request.approval_id in self._approvals:
                raise StoreError(f"approval {request.approval_id!r} is filed already")

    def _file(self, request: ApprovalRequest) -> None:
        self._approvals[request.approval_id] = FiledApproval(request, "pending", None)

    def _use(self, approval_id: str, session_id: str) -> None:
        filed = self._approvals.get(approval_id)
        if filed is not None and filed.request.session_id == session_id:
            decided = take_out_edit(filed.decided)[0] if filed.decided else None
            self._approvals[approval_id] = replace(filed, state="used", decided=decided)

    def _forget_used(self, session_id: str) -> None:
        self._approvals = {
            approval_id: filed
            for approval_id, filed in self._approvals.items()
            if filed.request.session_id != session_id or filed.state != "used"
        }

    def _forget(self, session_id: str) -> None:
        self._approvals = {
            approval_id: filed
            for approval_id, filed in self._approvals.items()
            if filed.request.session_id != session_id
        }
        self._grants = {
            grant_id: grant
            for grant_id, grant in self._grants.items()
            if grant.session_id != session_id
        }
