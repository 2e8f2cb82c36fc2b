"""The inbox of the memory store: approvals, grants and idempotency keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import TYPE_CHECKING, Generic, TypeGuard, TypeVar

from toolcrib.approval.authority import completes
from toolcrib.approval.decision import Actor, ApprovalRequest, Ballot, Decided, expired
from toolcrib.errors import StoreError
from toolcrib.store.codec import take_out_edit
from toolcrib.store.store import PAGE_SIZE, ApprovalState, FiledApproval, KeyClaim, Lease, StorePage
from toolcrib.store.stored_text import check_new_id

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant
    from toolcrib.store.approval_query import ApprovalQuery, InboxPage

T = TypeVar("T")


@dataclass(slots=True)
class Numbered(Generic[T]):
    """Items by id, numbered in the order in which they were added; the number is the cursor."""

    by_id: dict[str, tuple[int, T]] = field(default_factory=dict[str, tuple[int, T]])
    last: int = 0
    changes: int = 0
    """How often an item was added, replaced or removed."""

    def get(self, item_id: str) -> T | None:
        numbered = self.by_id.get(item_id)
        return None if numbered is None else numbered[1]

    def put(self, item_id: str, item: T) -> None:
        """Add an item, or replace one in its place."""
        numbered = self.by_id.get(item_id)
        self.changes += 1
        if numbered is None:
            self.last += 1
        self.by_id[item_id] = (self.last if numbered is None else numbered[0], item)

    def remove(self, is_unwanted: Callable[[T], bool]) -> None:
        self.changes += 1
        self.by_id = {
            item_id: numbered
            for item_id, numbered in self.by_id.items()
            if not is_unwanted(numbered[1])
        }

    def page(
        self,
        cursor: str | None,
        limit: int,
        is_wanted: Callable[[T], bool] = lambda _: True,
        *,
        newest_first: bool = False,
    ) -> StorePage[T]:
        last = None if cursor is None else int(cursor)
        items = reversed(self.by_id.values()) if newest_first else self.by_id.values()
        wanted = [
            (number, item)
            for number, item in items
            if (last is None or (number < last if newest_first else number > last))
            and is_wanted(item)
        ]
        page = wanted[:limit]
        end = str(page[-1][0]) if len(wanted) > limit else None
        return StorePage(tuple(item for _, item in page), end)


class MemoryInbox(ABC):
    """The approvals, grants and keys of the memory store; it owns the lock of the whole store."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._approvals = Numbered[FiledApproval]()
        self._grants: Numbered[Grant] = Numbered()
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

    def inbox(
        self, query: ApprovalQuery, *, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> InboxPage:
        """A page of the requests that a query asks for."""
        from toolcrib.store.approval_query import page_of

        with self._lock:
            numbered = list(self._approvals.by_id.values())
            return page_of(numbered, query, self._owner_of, cursor, limit)

    def inbox_marks(self, query: ApprovalQuery) -> dict[str, object]:
        """The ids of those requests, with their votes."""
        with self._lock:
            return {
                approval_id: filed.ballot
                for approval_id, (_, filed) in self._approvals.by_id.items()
                if query.matches(filed, self._owner_of(filed.request.session_id))
            }

    def inbox_version(self) -> int:
        """How often the inbox has changed."""
        return self._approvals.changes

    def _count_pending(self, session_id: str) -> int:
        """How many requests of a session are pending."""
        return sum(
            filed.state == "pending" and filed.request.session_id == session_id
            for _, filed in self._approvals.by_id.values()
        )

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
        check_new_id("grant", grant.grant_id)
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

    def forget_keys(self, lease: Lease) -> None:
        """Forget every claim in a session."""
        with self._lock:
            self._keys = {
                key: claim
                for key, claim in self._keys.items()
                if claim.session_id != lease.session_id
            }

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
