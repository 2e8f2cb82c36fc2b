"""A third store: the protocol, forwarded method by method, and nothing else.

What uses a store beyond its protocol fails here, as it would with a database that is not ours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from toolcrib.approval.decision import Actor, Ballot, Decided
from toolcrib.approval.grant import Grant
from toolcrib.clock import Clock
from toolcrib.ledger.record import Head, Record
from toolcrib.prices.table import Prices
from toolcrib.store.approval_query import ApprovalQuery, InboxPage
from toolcrib.store.call_query import CallQuery, CallRow, PrincipalUse, SumKey, UsageSum
from toolcrib.store.ledger_writer import DurableLedger
from toolcrib.store.session_query import SessionQuery, SessionSummary
from toolcrib.store.store import (
    ApprovalState,
    Commit,
    CommitSource,
    FiledApproval,
    KeyClaim,
    Lease,
    OpenCall,
    SessionInfo,
    Store,
    StorePage,
)

FEW = 3
"""Small pages, so that whoever lists something reads several."""


class ForwardingStore:
    """Keeps everything in another store."""

    def __init__(self, storage: Store, *, is_durable: bool) -> None:
        self._storage = storage
        self._is_durable = is_durable

    @property
    def is_durable(self) -> bool:
        return self._is_durable

    @property
    def clock(self) -> Clock:
        return self._storage.clock

    @property
    def prices(self) -> Prices:
        return self._storage.prices

    def acquire(
        self,
        session_id: str,
        *,
        create: bool = True,
        settings: dict[str, Any] | None = None,
        owner: str | None = None,
    ) -> Lease:
        return self._storage.acquire(session_id, create=create, settings=settings, owner=owner)

    def release(self, lease: Lease) -> None:
        self._storage.release(lease)

    def is_sure(self, lease: Lease) -> bool:
        return self._storage.is_sure(lease)

    def watch_lease(self, lease: Lease, on_lost: Callable[[], None]) -> Callable[[], None]:
        return self._storage.watch_lease(lease, on_lost)

    def is_gone(self, holder: str) -> bool:
        return self._storage.is_gone(holder)

    def open_ledger(self, lease: Lease) -> DurableLedger:
        return DurableLedger(self, lease)

    def schedule(self, source: CommitSource) -> None:
        self._storage.schedule(source)

    def commit(self, lease: Lease, commit: Commit) -> None:
        self._storage.commit(lease, commit)

    def sessions(
        self,
        query: SessionQuery | None = None,
        *,
        cursor: str | None = None,
        limit: int = FEW,
    ) -> StorePage[SessionInfo]:
        return self._storage.sessions(query, cursor=cursor, limit=limit)

    def summaries(self, session_ids: Collection[str]) -> dict[str, SessionSummary]:
        return self._storage.summaries(session_ids)

    def session(self, session_id: str) -> SessionInfo:
        return self._storage.session(session_id)

    def records(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        return self._storage.records(
            session_id,
            after=after,
            before=before,
            limit=limit,
            kinds=kinds,
            newest_first=newest_first,
        )

    def head(self, session_id: str) -> Head | None:
        return self._storage.head(session_id)

    def delete_payloads(self, lease: Lease, up_to: int) -> None:
        self._storage.delete_payloads(lease, up_to)

    def delete_session(self, session_id: str, *, last_seq: int | None = None) -> None:
        self._storage.delete_session(session_id, last_seq=last_seq)

    def open_calls(self, session_id: str) -> list[OpenCall]:
        return self._storage.open_calls(session_id)

    def known_call(self, session_id: str, call_id: str) -> OpenCall | Record | None:
        return self._storage.known_call(session_id, call_id)

    def claim_key(self, claim: KeyClaim) -> KeyClaim | None:
        return self._storage.claim_key(claim)

    def settle_key(self, claim: KeyClaim) -> None:
        self._storage.settle_key(claim)

    def release_key(self, claim: KeyClaim) -> None:
        self._storage.release_key(claim)

    def forget_keys(self, lease: Lease) -> None:
        self._storage.forget_keys(lease)

    def artifact(self, session_id: str, artifact_id: str) -> str | None:
        return self._storage.artifact(session_id, artifact_id)

    def calls(
        self, query: CallQuery, *, cursor: str | None = None, limit: int = FEW
    ) -> StorePage[CallRow]:
        return self._storage.calls(query, cursor=cursor, limit=limit)

    def call_sums(self, query: CallQuery, key: SumKey) -> list[UsageSum]:
        return self._storage.call_sums(query, key)

    def principals(self) -> list[PrincipalUse]:
        return self._storage.principals()

    def approvals(
        self,
        *,
        session_id: str | None = None,
        owner: str | None = None,
        state: ApprovalState | None = None,
        cursor: str | None = None,
        limit: int = FEW,
    ) -> StorePage[FiledApproval]:
        return self._storage.approvals(
            session_id=session_id, owner=owner, state=state, cursor=cursor, limit=limit
        )

    def inbox(
        self, query: ApprovalQuery, *, cursor: str | None = None, limit: int = FEW
    ) -> InboxPage:
        return self._storage.inbox(query, cursor=cursor, limit=limit)

    def inbox_marks(self, query: ApprovalQuery) -> dict[str, object]:
        return self._storage.inbox_marks(query)

    def inbox_version(self) -> int:
        return self._storage.inbox_version()

    def approval(self, approval_id: str) -> FiledApproval | None:
        return self._storage.approval(approval_id)

    def decide(self, decided: Decided) -> bool:
        return self._storage.decide(decided)

    def vote(self, approval_id: str, digest: str, ballot: Ballot, *, after: Ballot | None) -> bool:
        return self._storage.vote(approval_id, digest, ballot, after=after)

    def expire(self, now: float) -> None:
        self._storage.expire(now)

    def add_grant(self, grant: Grant) -> None:
        self._storage.add_grant(grant)

    def grants(
        self, *, tool_id: str | None = None, cursor: str | None = None, limit: int = FEW
    ) -> StorePage[Grant]:
        return self._storage.grants(tool_id=tool_id, cursor=cursor, limit=limit)

    def grant(self, grant_id: str) -> Grant | None:
        return self._storage.grant(grant_id)

    def use_grant(self, grant_id: str, now: float) -> bool:
        return self._storage.use_grant(grant_id, now)

    def revoke_grant(self, grant_id: str, now: float, by: Actor) -> bool:
        return self._storage.revoke_grant(grant_id, now, by)

    def close(self) -> None:
        self._storage.close()
