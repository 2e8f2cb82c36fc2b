"""Approvals, grants and idempotency keys as rows, written in the transaction of the caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, Final

from toolcrib.approval.authority import completes
from toolcrib.approval.decision import Ballot, Decided, expired
from toolcrib.approval.grant import Grant
from toolcrib.errors import StoreError
from toolcrib.store.cipher import Cipher
from toolcrib.store.codec import (
    decode_ballot,
    decode_decided,
    decode_grant,
    decode_request,
    encode,
    put_back_edit,
    put_back_vote,
    take_out_edit,
    take_out_vote,
)
from toolcrib.store.postgres.lease_rows import check_lease
from toolcrib.store.postgres.parameters import Parameters, findable
from toolcrib.store.postgres.turn_rows import approval_decided
from toolcrib.store.store import ApprovalState, FiledApproval, KeyClaim, Lease

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

FILED_FIELDS: Final = "a.filed, a.approval_id, a.request, a.state, a.decided, a.sealed, a.ballot"
"""What `filed_approval` reads, of `approvals a`."""
APPROVAL: Final = f"SELECT {FILED_FIELDS} FROM approvals a WHERE a.approval_id = $1"
_PENDING: Final = """
SELECT sealed, ballot FROM approvals
WHERE approval_id = $1 AND digest = $2 AND state = 'pending' FOR UPDATE
"""
_DECIDE: Final = """
UPDATE approvals a SET state = 'decided', decided = $2, sealed = $3, ballot = NULL, verdict = $4
FROM sessions s WHERE a.approval_id = $1 AND s.number = a.session RETURNING s.session_id
"""
_VOTE: Final = "UPDATE approvals SET ballot = $2, sealed = $3 WHERE approval_id = $1"
OVERDUE: Final = """
SELECT EXISTS (SELECT 1 FROM grants WHERE expires_at <= $1)
    OR EXISTS (SELECT 1 FROM approvals WHERE state = 'pending' AND deadline <= $1)
"""
GRANT: Final = "SELECT fact FROM grants WHERE grant_id = $1"


# A filter that is not asked for is not in the statement. One with every filter has one plan for all
# of them once it is prepared, and that plan reads the whole table.
def approvals_statement(
    session_id: str | None, owner: str | None, state: ApprovalState | None, after: int, limit: int
) -> tuple[str, Parameters]:
    """The statement of some requests, oldest first."""
    put = Parameters()
    conditions = [f"a.filed > {put(after)}"]
    if session_id is not None:
        number = f"(SELECT number FROM sessions WHERE session_id = {put(session_id)})"
        conditions.append(f"a.session = {number}")
    if owner is not None:
        conditions.append(f"a.session IN (SELECT number FROM sessions WHERE owner = {put(owner)})")
    if state is not None:
        conditions.append(f"a.state = {put(state)}")
    where = " AND ".join(conditions)
    fields = f"SELECT {FILED_FIELDS} FROM approvals a"
    return f"{fields} WHERE {where} ORDER BY a.filed LIMIT {put(limit)}", put


def grants_statement(tool_id: str | None, after: int, limit: int) -> tuple[str, Parameters]:
    """The statement of some grants, oldest first."""
    put = Parameters()
    where = f"made > {put(after)}"
    # The order names the tool, too, so that the index of tools has it.
    order = "made"
    if tool_id is not None:
        where, order = f"{where} AND tool_id = {put(tool_id)}", "tool_id, made"
    return f"SELECT made, fact FROM grants WHERE {where} ORDER BY {order} LIMIT {put(limit)}", put


def approval_place(approval_id: str) -> str:
    """What the edited arguments of an approval are bound to."""
    return f"approval {approval_id}"


def filed_approval(row: Sequence[Any], cipher: Cipher) -> FiledApproval:
    """One row of `FILED_FIELDS`. Edited arguments are empty once they were used."""
    _, approval_id, request, state, data, sealed, votes = row[:7]
    decided = decode_decided(data) if data else None
    edited = None if sealed is None else cipher.open(sealed, approval_place(approval_id))
    if decided is not None and edited is not None:
        decided = put_back_edit(decided, edited)
    return FiledApproval(decode_request(request), state, decided, _ballot(votes, edited))


def _ballot(votes: bytes | None, edited: bytes | None) -> Ballot | None:
    if votes is None:
        return None
    ballot = decode_ballot(votes)
    if ballot.approval.arguments is None:
        return ballot
    # Without what they voted for, nobody could say any more what the votes are for.
    return None if edited is None else put_back_vote(ballot, edited)


async def _pending_ballot(
    connection: DatabaseConnection, approval_id: str, digest: str, cipher: Cipher
) -> tuple[bool, Ballot | None]:
    """Whether a request of this id and digest is pending, and its votes. Locks it."""
    row = await connection.fetchrow(_PENDING, findable(approval_id), findable(digest))
    if row is None:
        return False, None
    sealed = row["sealed"]
    edited = None if sealed is None else cipher.open(sealed, approval_place(approval_id))
    return True, _ballot(row["ballot"], edited)


async def decide(connection: DatabaseConnection, decided: Decided, cipher: Cipher) -> str | None:
    """Compare-and-swap from pending to decided; returns the session, None when it does not fit.

    Edited arguments may hold secrets that nobody has marked yet, so they are all encrypted.
    """
    approval_id = decided.approval_id
    is_pending, ballot = await _pending_ballot(connection, approval_id, decided.digest, cipher)
    if not is_pending or not completes(ballot, decided):
        return None
    emptied, edited = take_out_edit(decided)
    sealed = None if edited is None else cipher.seal(edited, approval_place(approval_id))
    verdict = decided.decision.kind
    session_id = await connection.fetchval(_DECIDE, approval_id, encode(emptied), sealed, verdict)
    await approval_decided(connection, session_id, approval_id)
    return str(session_id)


async def vote(
    connection: DatabaseConnection,
    key: tuple[str, str],
    ballot: Ballot,
    after: Ballot | None,
    cipher: Cipher,
) -> bool:
    """Compare-and-swap of the votes for the pending request of this id and digest."""
    is_pending, before = await _pending_ballot(connection, *key, cipher)
    if not is_pending or before != after:
        return False
    emptied, edited = take_out_vote(ballot)
    sealed = None if edited is None else cipher.seal(edited, approval_place(key[0]))
    await connection.execute(_VOTE, key[0], encode(emptied), sealed)
    return True


async def expire(connection: DatabaseConnection, now: float, cipher: Cipher) -> list[str]:
    """Record every grant and every pending request that is over at `now` as expired; returns the
    sessions of the requests.
    """
    grants = await connection.fetch(
        "SELECT grant_id, fact FROM grants WHERE expires_at <= $1 ORDER BY grant_id FOR UPDATE", now
    )
    for grant_id, fact in grants:
        await _save_grant(connection, grant_id, decode_grant(fact).expire(now))
    requests = await connection.fetch(
        "SELECT request FROM approvals WHERE state = 'pending' AND deadline <= $1"
        " ORDER BY approval_id FOR UPDATE",
        now,
    )
    decided = [
        await decide(connection, expired(decode_request(request), now), cipher)
        for (request,) in requests
    ]
    return [session_id for session_id in decided if session_id is not None]


_KEY: Final = "principal = $1 AND operation = $2 AND key = $3"
_IS_OWN: Final = f"{_KEY} AND holder IS NOT DISTINCT FROM $4"
_CLAIM_FIELDS: Final = """
principal, operation, key, params_digest, session_id, created_at, after_turn, outcome, holder
"""
_CLAIM: Final = f"""
INSERT INTO keys ({_CLAIM_FIELDS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT DO NOTHING RETURNING true
"""
_EARLIER: Final = f"SELECT {_CLAIM_FIELDS} FROM keys WHERE {_KEY}"
_TAKE_OVER: Final = f"""
UPDATE keys k SET holder = $4 WHERE {_KEY} AND params_digest = $5 AND outcome IS NULL
    AND holder IS DISTINCT FROM $4 AND NOT EXISTS (
        SELECT FROM replicas r WHERE r.replica_id = k.holder
            AND r.expires_at > coalesce($6::double precision, toolcrib_now()))
RETURNING {_CLAIM_FIELDS}
"""


async def claim_key(
    connection: DatabaseConnection, claim: KeyClaim, now: float | None
) -> KeyClaim | None:
    """Keep a claim unless its key is taken; then return the one that has it, which is the
    claimant's to go on with when its holder is gone.
    """
    while True:
        if await connection.fetchval(_CLAIM, *astuple(claim)):
            return None
        row = await connection.fetchrow(_EARLIER, *_key_of(claim))
        # None when it was released meanwhile.
        if row is None:
            continue
        earlier = KeyClaim(*row)
        if claim.holder is None or earlier.outcome is not None:
            return earlier
        mine = (claim.holder, claim.params_digest, now)
        taken = await connection.fetchrow(_TAKE_OVER, *_key_of(claim), *mine)
        return earlier if taken is None else KeyClaim(*taken)


async def settle_key(connection: DatabaseConnection, claim: KeyClaim) -> None:
    """Keep the outcome of a claim, which nobody holds then."""
    await connection.execute(
        f"UPDATE keys SET outcome = $5, holder = NULL WHERE {_IS_OWN}",
        *_key_of(claim),
        claim.holder,
        claim.outcome,
    )


async def release_key(connection: DatabaseConnection, claim: KeyClaim) -> None:
    """Forget a claim."""
    await connection.execute(f"DELETE FROM keys WHERE {_IS_OWN}", *_key_of(claim), claim.holder)


async def forget_keys(connection: DatabaseConnection, lease: Lease) -> None:
    """Forget every claim in a session, with the turns that ended and were kept for their keys."""
    # Turns before the session: the order of locks of `turn_rows`.
    await connection.execute(
        "DELETE FROM turns WHERE session_id = $1 AND state = 'ended'", lease.session_id
    )
    await check_lease(connection, lease)
    await connection.execute("DELETE FROM keys WHERE session_id = $1", lease.session_id)


def _key_of(claim: KeyClaim) -> tuple[str, str, str]:
    return claim.principal, claim.operation, claim.key


async def add_grant(connection: DatabaseConnection, grant: Grant) -> None:
    """Keep a new grant."""
    made = await connection.fetchval(
        "INSERT INTO grants (grant_id, tool_id, session_id, fact, expires_at)"
        " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING true",
        grant.grant_id,
        grant.tool_id,
        grant.session_id,
        encode(grant),
        _watched(grant),
    )
    if not made:
        raise StoreError(f"there is already a grant {grant.grant_id!r}")


async def change_grant(
    connection: DatabaseConnection, grant_id: str, now: float, change: Callable[[Grant], Grant]
) -> bool:
    """Replace a grant that is live by what `change` makes of it."""
    fact = await connection.fetchval(f"{GRANT} FOR UPDATE", findable(grant_id))
    grant = None if fact is None else decode_grant(fact)
    if grant is None or not grant.is_live(now):
        return False
    await _save_grant(connection, grant_id, change(grant))
    return True


async def _save_grant(connection: DatabaseConnection, grant_id: str, grant: Grant) -> None:
    await connection.execute(
        "UPDATE grants SET fact = $2, expires_at = $3 WHERE grant_id = $1",
        grant_id,
        encode(grant),
        _watched(grant),
    )


def _watched(grant: Grant) -> float | None:
    """When the grant has to be recorded as expired; None when it never has to."""
    has_ended = grant.revoked_at is not None or grant.expired_at is not None
    return None if has_ended else grant.expires_at
