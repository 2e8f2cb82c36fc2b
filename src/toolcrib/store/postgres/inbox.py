"""Approvals, grants and idempotency keys of the store on PostgreSQL."""

from __future__ import annotations

from toolcrib.approval.decision import Actor, Ballot, Decided
from toolcrib.approval.grant import Grant
from toolcrib.store.codec import decode_grant
from toolcrib.store.postgres import inbox_rows
from toolcrib.store.postgres.access import PostgresAccess
from toolcrib.store.shared_store import Hint
from toolcrib.store.store import (
    PAGE_SIZE,
    ApprovalState,
    FiledApproval,
    KeyClaim,
    Lease,
    StorePage,
)
from toolcrib.store.stored_text import check_new_id


class PostgresInbox(PostgresAccess):
    """What people decide, and what was decided in advance. Any replica, no lease."""

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
        statement, put = inbox_rows.approvals_statement(
            session_id, owner, state, int(cursor or 0), limit + 1
        )
        rows = self._rows(statement, *put.values)
        end = str(rows[limit - 1][0]) if len(rows) > limit else None
        items = (inbox_rows.filed_approval(tuple(row), self._cipher) for row in rows[:limit])
        return StorePage(tuple(items), end)

    def approval(self, approval_id: str) -> FiledApproval | None:
        """One request of the inbox."""
        rows = self._rows(inbox_rows.APPROVAL, approval_id)
        return inbox_rows.filed_approval(tuple(rows[0]), self._cipher) if rows else None

    def decide(self, decided: Decided) -> bool:
        """Record the first decision that fits; later ones get False."""
        session_id = self._transact(lambda conn: inbox_rows.decide(conn, decided, self._cipher))
        if session_id is not None:
            self._hints.send(Hint("decision", session_id))
        return session_id is not None

    def vote(self, approval_id: str, digest: str, ballot: Ballot, *, after: Ballot | None) -> bool:
        """Record votes if nobody has voted since `after`."""
        key = (approval_id, digest)
        return self._transact(lambda conn: inbox_rows.vote(conn, key, ballot, after, self._cipher))

    def expire(self, now: float) -> None:
        """Record what is over at `now` as expired."""
        if self._rows(inbox_rows.OVERDUE, now)[0][0]:
            sessions = self._transact(lambda conn: inbox_rows.expire(conn, now, self._cipher))
            for session_id in sessions:
                self._hints.send(Hint("decision", session_id))

    def add_grant(self, grant: Grant) -> None:
        """Keep a new grant."""
        check_new_id("grant", grant.grant_id)
        self._transact(lambda conn: inbox_rows.add_grant(conn, grant))

    def grants(
        self, *, tool_id: str | None = None, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> StorePage[Grant]:
        """All grants, oldest first, dead ones too."""
        statement, put = inbox_rows.grants_statement(tool_id, int(cursor or 0), limit + 1)
        rows = self._rows(statement, *put.values)
        end = str(rows[limit - 1][0]) if len(rows) > limit else None
        return StorePage(tuple(decode_grant(fact) for _, fact in rows[:limit]), end)

    def grant(self, grant_id: str) -> Grant | None:
        """One grant."""
        rows = self._rows(inbox_rows.GRANT, grant_id)
        return decode_grant(rows[0][0]) if rows else None

    def use_grant(self, grant_id: str, now: float) -> bool:
        """Take one use if the grant is live."""
        return self._transact(
            lambda conn: inbox_rows.change_grant(conn, grant_id, now, Grant.spend)
        )

    def revoke_grant(self, grant_id: str, now: float, by: Actor) -> bool:
        """End a live grant."""
        return self._transact(
            lambda conn: inbox_rows.change_grant(
                conn, grant_id, now, lambda grant: grant.revoke(now, by)
            )
        )

    def claim_key(self, claim: KeyClaim) -> KeyClaim | None:
        """Keep a claim, or return the one that is there."""
        if claim.holder is not None:
            self._ensure_joined()
        now = self._now()
        return self._transact(lambda conn: inbox_rows.claim_key(conn, claim, now))

    def settle_key(self, claim: KeyClaim) -> None:
        """Keep the outcome of a claim."""
        self._transact(lambda conn: inbox_rows.settle_key(conn, claim))

    def release_key(self, claim: KeyClaim) -> None:
        """Forget a claim."""
        self._transact(lambda conn: inbox_rows.release_key(conn, claim))

    def forget_keys(self, lease: Lease) -> None:
        """Forget every claim in a session."""
        self._transact(lambda conn: inbox_rows.forget_keys(conn, lease))
