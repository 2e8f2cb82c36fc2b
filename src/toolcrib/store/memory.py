"""The store that needs nothing: sessions live in this process and die with it.

The approvals and grants of the memory store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, Protocol, assert_never

from toolcrib.approval.decision import Decided
from toolcrib.approval.grant import Grant
from toolcrib.approval.request import ApprovalRequest
from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import LeaseHeld, LeaseLost, SessionNotFound, StoreError
from toolcrib.ledger.record import Head, Record
from toolcrib.store.codec import take_out_edit
from toolcrib.store.store import (
    ApprovalFiled,
    ApprovalState,
    ApprovalUsed,
    Artifact,
    ArtifactKept,
    CallClosed,
    CallOpened,
    Commit,
    CommitSource,
    Effect,
    FiledApproval,
    Lease,
    OpenCall,
    SessionInfo,
    check_follows,
    end_of,
)


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


class Keeps(Protocol):
    """A ledger that keeps its own records."""

    def records(self, after: int = 0) -> Iterator[Record]:
        """The records with a greater sequence number, in order."""
        ...

    def head(self) -> Head | None:
        """The end of them."""
        ...


@dataclass(slots=True)
class _Session:
    created_at: float
    settings: dict[str, Any]
    fence: int
    is_open: bool = True
    records: list[Record] = field(default_factory=list[Record])
    attached: Keeps | None = None
    open_calls: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall])
    artifacts: dict[str, Artifact] = field(default_factory=dict[str, Artifact])

    def read(self, after: int) -> Iterator[Record]:
        if self.attached is not None:
            return self.attached.records(after)
        return iter(self.records[after:])

    def head(self) -> Head | None:
        if self.attached is not None:
            return self.attached.head()
        last = self.records[-1] if self.records else None
        return Head(last.session_id, last.seq, last.hash) if last else None


class MemoryStore(MemoryInbox):
    """The twin of the durable stores: the same rules, nothing on disk."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._clock = clock
        self._sessions: dict[str, _Session] = {}
        # A session made again after its deletion must not honour leases of the deleted one.
        self._fence_floor = 0

    @property
    def is_durable(self) -> bool:
        """Always false."""
        return False

    def acquire(
        self, session_id: str, *, create: bool = True, settings: dict[str, Any] | None = None
    ) -> Lease:
        """Become the writer. `settings` are kept only when the session is new."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                if not create:
                    raise SessionNotFound(f"there is no session {session_id!r}")
                session = _Session(self._clock(), dict(settings or {}), self._fence_floor + 1)
                self._sessions[session_id] = session
            elif session.is_open:
                raise LeaseHeld(f"session {session_id!r} is already open in this process")
            else:
                session.fence += 1
                session.is_open = True
            return Lease(session_id, "this process", session.fence)

    def release(self, lease: Lease) -> None:
        """Stop being the writer; a void lease is ignored."""
        with self._lock:
            session = self._sessions.get(lease.session_id)
            if session is not None and session.fence == lease.fence:
                session.is_open = False

    def schedule(self, source: CommitSource) -> None:
        """Commit at once: there is nothing to wait for."""
        try:
            self.commit(source.lease, source.drain())
        except Exception as error:
            source.settled(error)
        else:
            source.settled(None)

    def commit(self, lease: Lease, commit: Commit) -> None:
        """Keep records and effects, or neither."""
        with self._lock:
            session = self._held(lease)
            if commit.records:
                seq, previous = end_of(session.head())
                check_follows(commit.records, lease.session_id, seq, previous)
            self._apply(session, lease.session_id, commit.effects)
            session.records.extend(commit.records)

    def attach(self, session_id: str, ledger: Keeps) -> None:
        """Let a ledger that keeps its own records answer for this session's."""
        with self._lock:
            session = self._known(session_id)
            session.attached = ledger
            session.records.clear()

    def apply(self, lease: Lease, effects: Sequence[Effect]) -> None:
        """Keep the effects of a ledger that keeps its own records."""
        with self._lock:
            self._apply(self._held(lease), lease.session_id, effects)

    def restore(
        self,
        lease: Lease,
        calls: Sequence[OpenCall],
        approvals: Sequence[FiledApproval],
        grants: Sequence[Grant],
    ) -> None:
        """Put back what a session's state holds besides its records."""
        with self._lock:
            self._held(lease).open_calls.update({call.call_id: call for call in calls})
            self._approvals.update({filed.request.approval_id: filed for filed in approvals})
            self._grants.update({grant.grant_id: grant for grant in grants})

    def sessions(self) -> list[SessionInfo]:
        """Every session, oldest first."""
        with self._lock:
            return [self.session(session_id) for session_id in self._sessions]

    def session(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        with self._lock:
            found = self._known(session_id)
            return SessionInfo(
                session_id, found.created_at, found.head(), dict(found.settings), found.is_open
            )

    def save_settings(self, lease: Lease, settings: dict[str, Any]) -> None:
        """Replace the session's settings."""
        with self._lock:
            self._held(lease).settings = dict(settings)

    def records(self, session_id: str, *, after: int = 0) -> Iterator[Record]:
        """Records with `seq > after`. Raises `SessionNotFound`."""
        with self._lock:
            session = self._known(session_id)
        # Not under the lock: an attached ledger may have much to seal first.
        return session.read(after)

    def head(self, session_id: str) -> Head | None:
        """The end of the ledger, None while it is empty. Raises `SessionNotFound`."""
        with self._lock:
            return self._known(session_id).head()

    def open_calls(self, session_id: str) -> list[OpenCall]:
        """Open calls in the order they were opened."""
        with self._lock:
            session = self._sessions.get(session_id)
            return list(session.open_calls.values()) if session else []

    def artifact(self, session_id: str, artifact_id: str) -> str | None:
        """The text of an artifact."""
        with self._lock:
            session = self._sessions.get(session_id)
            kept = session.artifacts.get(artifact_id) if session else None
            return kept.text if kept else None

    def delete_payloads(self, lease: Lease) -> None:
        """Delete payloads, artifacts and used approvals; an attached ledger drops its own."""
        with self._lock:
            session = self._held(lease)
            session.records = [replace(record, payload=None) for record in session.records]
            session.artifacts.clear()
            self._forget_used(lease.session_id)

    def delete_session(self, session_id: str) -> None:
        """Forget a session that nobody writes."""
        with self._lock:
            session = self._known(session_id)
            if session.is_open:
                raise LeaseHeld(f"session {session_id!r} is open; close it before deleting it")
            self._fence_floor = max(self._fence_floor, session.fence)
            self._forget(session_id)
            del self._sessions[session_id]

    def close(self) -> None:
        """Nothing to close."""

    def _known(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound(f"there is no session {session_id!r}")
        return session

    def _held(self, lease: Lease) -> _Session:
        session = self._sessions.get(lease.session_id)
        if session is None or not session.is_open or session.fence != lease.fence:
            raise LeaseLost(f"session {lease.session_id!r} is no longer written by this lease")
        return session

    def _apply(self, session: _Session, session_id: str, effects: Sequence[Effect]) -> None:
        self._check_new([e.request for e in effects if isinstance(e, ApprovalFiled)])
        for effect in effects:
            self._apply_one(session, session_id, effect)

    def _apply_one(self, session: _Session, session_id: str, effect: Effect) -> None:
        match effect:
            case CallOpened(call):
                session.open_calls[call.call_id] = call
            case CallClosed(call_id):
                session.open_calls.pop(call_id, None)
            case ApprovalFiled(request):
                self._file(request)
            case ApprovalUsed(approval_id):
                self._use(approval_id, session_id)
            case ArtifactKept(artifact):
                session.artifacts[artifact.artifact_id] = artifact
            case _:
                assert_never(effect)
