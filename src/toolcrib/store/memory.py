"""The memory store: sessions live in this process and die with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar, assert_never

from toolcrib.approval.authority import completes
from toolcrib.approval.decision import Actor, ApprovalRequest, Ballot, Decided, expired
from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import LeaseHeld, LeaseLost, SessionNotFound, StoreError
from toolcrib.ledger.record import Head, Record
from toolcrib.store.codec import take_out_edit
from toolcrib.store.ledger_writer import MemoryLedger, MemoryRecords
from toolcrib.store.store import (
    PAGE_SIZE,
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
    KeyClaim,
    Lease,
    OpenCall,
    SessionInfo,
    SettingsKept,
    StorePage,
    check_follows,
    end_of,
)

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant

T = TypeVar("T")


@dataclass(slots=True)
class _Numbered(Generic[T]):
    """Items by id, numbered in the order in which they were added; the number is the cursor."""

    by_id: dict[str, tuple[int, T]] = field(default_factory=dict[str, tuple[int, T]])
    last: int = 0

    def get(self, item_id: str) -> T | None:
        numbered = self.by_id.get(item_id)
        return None if numbered is None else numbered[1]

    def put(self, item_id: str, item: T) -> None:
        """Add an item, or replace one in its place."""
        numbered = self.by_id.get(item_id)
        if numbered is None:
            self.last += 1
        self.by_id[item_id] = (self.last if numbered is None else numbered[0], item)

    def remove(self, is_unwanted: Callable[[T], bool]) -> None:
        self.by_id = {
            item_id: numbered
            for item_id, numbered in self.by_id.items()
            if not is_unwanted(numbered[1])
        }

    def page(
        self, cursor: str | None, limit: int, is_wanted: Callable[[T], bool] = lambda _: True
    ) -> StorePage[T]:
        after = int(cursor or 0)
        wanted = [
            (number, item)
            for number, item in self.by_id.values()
            if number > after and is_wanted(item)
        ]
        page = wanted[:limit]
        end = str(page[-1][0]) if len(wanted) > limit else None
        return StorePage(tuple(item for _, item in page), end)


class MemoryInbox(ABC):
    """The approvals, grants and keys of the memory store; it owns the lock of the whole store."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._approvals = _Numbered[FiledApproval]()
        self._grants: _Numbered[Grant] = _Numbered()
        self._keys: dict[tuple[str, str, str], KeyClaim] = {}

    def approvals(
        self,
        *,
        session_id: str | None = None,
        owner: str | None = None,
        state: ApprovalState | None = None,
        cursor: str | None = None,
        limit: int = PAGE_SIZE,
    ) -> StorePage[FiledApproval]:
        """The inbox, oldest first."""

        def is_wanted(filed: FiledApproval) -> bool:
            of_session = session_id in (None, filed.request.session_id)
            of_owner = owner is None or owner == self._owner_of(filed.request.session_id)
            return of_session and of_owner and state in (None, filed.state)

        with self._lock:
            return self._approvals.page(cursor, limit, is_wanted)

    def approval(self, approval_id: str) -> FiledApproval | None:
        """One request of the inbox."""
        with self._lock:
            return self._approvals.get(approval_id)

    def decide(self, decided: Decided) -> bool:
        """Record the first decision that fits; later ones get False."""
        with self._lock:
            filed = self._approvals.get(decided.approval_id)
            if not _is_open(filed, decided.digest) or not completes(filed.ballot, decided):
                return False
            self._approvals.put(
                decided.approval_id, replace(filed, state="decided", decided=decided, ballot=None)
            )
            return True

    def vote(self, approval_id: str, digest: str, ballot: Ballot, *, after: Ballot | None) -> bool:
        """Record votes if nobody has voted since `after`."""
        with self._lock:
            filed = self._approvals.get(approval_id)
            if not _is_open(filed, digest) or filed.ballot != after:
                return False
            self._approvals.put(approval_id, replace(filed, ballot=ballot))
            return True

    def expire(self, now: float) -> None:
        """Record what is over at `now` as expired."""
        with self._lock:
            for grant_id, (_, grant) in list(self._grants.by_id.items()):
                if grant.is_overdue(now):
                    self._grants.put(grant_id, grant.expire(now))
            for _, filed in list(self._approvals.by_id.values()):
                deadline = filed.request.deadline
                if filed.state == "pending" and deadline is not None and now >= deadline:
                    self.decide(expired(filed.request, now))

    def add_grant(self, grant: Grant) -> None:
        """Keep a new grant."""
        with self._lock:
            if self._grants.get(grant.grant_id) is not None:
                raise StoreError(f"there is already a grant {grant.grant_id!r}")
            self._grants.put(grant.grant_id, grant)

    def grants(
        self, *, tool_id: str | None = None, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> StorePage[Grant]:
        """All grants, oldest first, dead ones too."""
        with self._lock:
            return self._grants.page(cursor, limit, lambda grant: tool_id in (None, grant.tool_id))

    def grant(self, grant_id: str) -> Grant | None:
        """One grant."""
        with self._lock:
            return self._grants.get(grant_id)

    def use_grant(self, grant_id: str, now: float) -> bool:
        """Take one use if the grant is live."""
        with self._lock:
            grant = self._grants.get(grant_id)
            if grant is None or not grant.is_live(now):
                return False
            self._grants.put(grant_id, grant.spend())
            return True

    def revoke_grant(self, grant_id: str, now: float, by: Actor) -> bool:
        """End a live grant."""
        with self._lock:
            grant = self._grants.get(grant_id)
            if grant is None or not grant.is_live(now):
                return False
            self._grants.put(grant_id, grant.revoke(now, by))
            return True

    @abstractmethod
    def _owner_of(self, session_id: str) -> str | None:
        """The owner of a session; None when it has none."""

    def claim_key(self, claim: KeyClaim) -> KeyClaim | None:
        """Keep a claim, or return the one that is there."""
        with self._lock:
            earlier = self._keys.get(_key_of(claim))
            if earlier is None:
                self._keys[_key_of(claim)] = claim
            return earlier

    def settle_key(self, claim: KeyClaim) -> None:
        """Keep the outcome of a claim."""
        with self._lock:
            if _key_of(claim) in self._keys:
                self._keys[_key_of(claim)] = claim

    def release_key(self, claim: KeyClaim) -> None:
        """Forget a claim."""
        with self._lock:
            self._keys.pop(_key_of(claim), None)

    def _check_new(self, requests: Sequence[ApprovalRequest]) -> None:
        for request in requests:
            if self._approvals.get(request.approval_id) is not None:
                raise StoreError(f"approval {request.approval_id!r} is filed already")

    def _file(self, request: ApprovalRequest) -> None:
        self._approvals.put(request.approval_id, FiledApproval(request, "pending", None))

    def _use(self, approval_id: str, session_id: str) -> None:
        filed = self._approvals.get(approval_id)
        if filed is not None and filed.request.session_id == session_id:
            decided = take_out_edit(filed.decided)[0] if filed.decided else None
            self._approvals.put(approval_id, replace(filed, state="used", decided=decided))

    def _forget_used(self, session_id: str) -> None:
        self._approvals.remove(
            lambda filed: filed.request.session_id == session_id and filed.state == "used"
        )

    def _forget(self, session_id: str) -> None:
        self._approvals.remove(lambda filed: filed.request.session_id == session_id)
        self._grants.remove(lambda grant: grant.session_id == session_id)
        self._keys = {
            key: claim for key, claim in self._keys.items() if claim.session_id != session_id
        }


def _key_of(claim: KeyClaim) -> tuple[str, str, str]:
    return claim.principal, claim.operation, claim.key


def _is_open(filed: FiledApproval | None, digest: str) -> TypeGuard[FiledApproval]:
    return filed is not None and filed.state == "pending" and filed.request.digest == digest


@dataclass(slots=True)
class _Session:
    session_id: str
    created_at: float
    settings: dict[str, Any]
    fence: int
    records: MemoryRecords
    owner: str | None
    is_open: bool = True
    open_calls: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall])
    artifacts: dict[str, Artifact] = field(default_factory=dict[str, Artifact])

    def info(self) -> SessionInfo:
        return SessionInfo(
            self.session_id,
            self.created_at,
            self.records.head(),
            dict(self.settings),
            self.is_open,
            self.owner,
        )


class MemoryStore(MemoryInbox):
    """The twin of the durable stores: the same rules, nothing on disk."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._clock = clock
        self._sessions = _Numbered[_Session]()
        # A session made again after its deletion must not honour leases of the deleted one.
        self._fence_floor = 0

    @property
    def is_durable(self) -> bool:
        """Always false."""
        return False

    def acquire(
        self,
        session_id: str,
        *,
        create: bool = True,
        settings: dict[str, Any] | None = None,
        owner: str | None = None,
    ) -> Lease:
        """Become the writer. `settings` and `owner` are kept only when the session is new."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                if not create:
                    raise SessionNotFound(f"there is no session {session_id!r}")
                session = _Session(
                    session_id,
                    self._clock(),
                    dict(settings or {}),
                    self._fence_floor + 1,
                    MemoryRecords(session_id),
                    owner,
                )
                self._sessions.put(session_id, session)
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

    def open_ledger(self, lease: Lease) -> MemoryLedger:
        """A ledger that seals entries only when somebody reads them."""
        with self._lock:
            return MemoryLedger(self._leased_session(lease).records, lease, self._keep_effects)

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
            session = self._leased_session(lease)
            if commit.records:
                seq, previous = end_of(session.records.head())
                check_follows(commit.records, lease.session_id, seq, previous)
            self._apply(session, lease.session_id, commit.effects)
            session.records.extend(commit.records)

    def sessions(
        self, *, owner: str | None = None, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> StorePage[SessionInfo]:
        """The sessions of a principal, or every session; oldest first."""
        with self._lock:
            page = self._sessions.page(
                cursor, limit, lambda session: owner in (None, session.owner)
            )
            return StorePage(tuple(session.info() for session in page.items), page.cursor)

    def session(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        with self._lock:
            return self._known(session_id).info()

    def records(
        self,
        session_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        """Records with `seq > after`. Raises `SessionNotFound`."""
        with self._lock:
            records = self._known(session_id).records
        # Not under the lock: there may be much to seal first.
        return islice(records.read(after, kinds=kinds, newest_first=newest_first), limit)

    def head(self, session_id: str) -> Head | None:
        """The end of the ledger, None while it is empty. Raises `SessionNotFound`."""
        with self._lock:
            return self._known(session_id).records.head()

    def open_calls(self, session_id: str) -> list[OpenCall]:
        """Open calls in the order they were opened."""
        with self._lock:
            session = self._sessions.get(session_id)
            return list(session.open_calls.values()) if session else []

    def known_call(self, session_id: str, call_id: str) -> OpenCall | Record | None:
        """The open call of an id, or the record of its end."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                return None
            call = session.open_calls.get(call_id)
        return call or session.records.end_of_call(call_id)

    def artifact(self, session_id: str, artifact_id: str) -> str | None:
        """The text of an artifact."""
        with self._lock:
            session = self._sessions.get(session_id)
            artifact = session.artifacts.get(artifact_id) if session else None
            return artifact.text if artifact else None

    def delete_payloads(self, lease: Lease, up_to: int) -> None:
        """Delete payloads, artifacts and used approvals."""
        with self._lock:
            session = self._leased_session(lease)
            session.records.drop_payloads(up_to)
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
            self._sessions.remove(lambda other: other is session)

    def close(self) -> None:
        """Nothing to close."""

    def _owner_of(self, session_id: str) -> str | None:
        session = self._sessions.get(session_id)
        return session.owner if session else None

    def _known(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound(f"there is no session {session_id!r}")
        return session

    def _leased_session(self, lease: Lease) -> _Session:
        session = self._sessions.get(lease.session_id)
        if session is None or not session.is_open or session.fence != lease.fence:
            raise LeaseLost(f"session {lease.session_id!r} is no longer written by this lease")
        return session

    def _keep_effects(self, lease: Lease, effects: Sequence[Effect]) -> None:
        with self._lock:
            self._apply(self._leased_session(lease), lease.session_id, effects)

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
            case SettingsKept(settings):
                session.settings = dict(settings)
            case _:
                assert_never(effect)
