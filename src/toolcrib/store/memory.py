"""The store that needs nothing: sessions live in this process and die with it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, assert_never

from toolcrib.approval.grant import Grant
from toolcrib.errors import LeaseHeld, LeaseLost, SessionNotFound
from toolcrib.session.record import Head, Record
from toolcrib.store.chain import check_follows, end_of
from toolcrib.store.memory_inbox import MemoryInbox
from toolcrib.store.store import (
    ApprovalFiled,
    ApprovalUsed,
    Artifact,
    ArtifactKept,
    CallClosed,
    CallOpened,
    Clock,
    Commit,
    CommitSource,
    Effect,
    FiledApproval,
    Lease,
    OpenCall,
    SessionInfo,
)


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

    def __init__(self, *, clock: Clock = time.time) -> None:
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
