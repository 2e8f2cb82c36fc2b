"""Turns as rows: who may take one up, and what becomes of it, in the transaction of the caller.

Locks are taken in one order, so that nobody waits in a circle: requests of the inbox, turns, the
session, the replica that a session is taken from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolcrib.errors import SessionNotFound
from toolcrib.store.leases import lost
from toolcrib.store.postgres.lease_rows import NOW
from toolcrib.store.shared_store import ClaimedTurn, QueuedTurn, QueueRule
from toolcrib.store.store import Lease

if TYPE_CHECKING:
    from asyncpg import Record as DatabaseRow

    from toolcrib.store.postgres.database import DatabaseConnection
    from toolcrib.store.postgres.lease_rows import ReplicaIdentity

# `attempts` holds the failures: a claim is none, however often a turn was taken up and cut off.
_FIELDS: Final = """
t.turn_id, t.session_id, t.request, t.state, t.created_at, t.wake_at, t.pending, t.outcome,
t.attempts, t.gives_way, t.is_kept, t.cancelled_by
"""
BY_ID: Final = f"SELECT {_FIELDS} FROM turns t WHERE t.turn_id = ANY($1::text[]) ORDER BY t.place"
NOT_ENDED: Final = f"""
SELECT {_FIELDS} FROM turns t WHERE t.session_id = $1 AND t.state <> 'ended' ORDER BY t.place
"""
NEWEST: Final = f"""
SELECT {_FIELDS} FROM turns t WHERE t.session_id = $1 ORDER BY t.place DESC LIMIT 1
"""
CANCELLED: Final = f"""
SELECT {_FIELDS} FROM turns t JOIN sessions s USING (session_id)
WHERE t.state = 'running' AND t.cancelled_by IS NOT NULL AND s.replica_id = $1
    AND t.fence = s.fence ORDER BY t.place
"""
PRUNE: Final = "DELETE FROM turns WHERE state = 'ended' AND NOT is_kept AND changed_at < $1"
HELD: Final = """
SELECT t.session_id FROM turns t JOIN sessions s USING (session_id)
WHERE t.state = 'running' AND s.replica_id = $1 AND t.fence = s.fence
"""

_INSERT: Final = f"""
INSERT INTO turns (turn_id, session_id, state, request, gives_way, is_kept, due_at, created_at,
    changed_at)
SELECT $2, $3, 'queued', $4, $5, $6, CASE WHEN $7 THEN n.now END, n.now, n.now
FROM (SELECT {NOW} AS now) n ON CONFLICT (turn_id) DO NOTHING
"""
_CANCEL: Final = f"""
UPDATE turns SET cancelled_by = coalesce(cancelled_by, $3), changed_at = {NOW},
    due_at = CASE WHEN state = 'waiting' OR due_at IS NOT NULL THEN {NOW} END
WHERE turn_id = $2
"""

# $2 is this replica, $3 the sessions that only seem to be its own.
_FREE: Final = """
(s.replica_id IS NULL OR s.replica_id = $2 AND s.session_id = ANY($3::text[]) OR NOT EXISTS (
    SELECT 1 FROM replicas r WHERE r.replica_id = s.replica_id AND r.expires_at > n.now))
"""
# It runs at a replica that is gone, or somebody has opened its session since.
_CUT_OFF: Final = f"(t.fence IS DISTINCT FROM s.fence OR {_FREE})"
_REVIVE: Final = f"""
UPDATE turns t SET due_at = n.now FROM sessions s, (SELECT {NOW} AS now) n
WHERE s.session_id = t.session_id AND t.state = 'running' AND t.due_at IS NULL
    AND ($4::text IS NULL OR t.session_id = $4) AND {_CUT_OFF}
"""
WITHDRAWN: Final = f"""
UPDATE turns t SET due_at = n.now FROM (SELECT {NOW} AS now) n
WHERE t.state = 'waiting' AND (t.due_at IS NULL OR t.due_at > n.now)
    AND ($2::text IS NULL OR t.session_id = $2) AND EXISTS (
        SELECT 1 FROM unnest(t.pending) p LEFT JOIN approvals a ON a.approval_id = p
        WHERE a.state IS DISTINCT FROM 'pending')
"""
_DECIDED: Final = """
UPDATE turns SET due_at = 0
WHERE session_id = $1 AND state = 'waiting' AND $2::text = ANY(pending)
"""

# The time as a value of its own, and not of `n`: only so is it looked up in the index, and turns
# that are due later are not read.
_DUE: Final = f"""
t.due_at <= (SELECT {NOW}) AND t.state <> 'ended' AND (t.state <> 'running' OR {_CUT_OFF})
    AND (s.replica_id = $2 OR {_FREE})
"""
DUE_SESSIONS: Final = f"""
SELECT t.session_id FROM turns t JOIN sessions s USING (session_id), (SELECT {NOW} AS now) n
WHERE {_DUE} ORDER BY t.due_at LIMIT $4
"""
# A session that this replica has open keeps its lease.
CLAIM: Final = f"""
WITH picked AS MATERIALIZED (
    SELECT t.turn_id, s.session_id, s.replica_id AS holder, n.now,
        coalesce(s.replica_id = $2 AND s.session_id <> ALL($3::text[]), false) AS is_mine
    FROM turns t JOIN sessions s USING (session_id), (SELECT {NOW} AS now) n
    WHERE {_DUE} AND ($6::text IS NULL OR t.session_id = $6) AND (NOT $7 OR s.replica_id = $2)
        AND EXISTS (SELECT 1 FROM replicas r WHERE r.replica_id = $2 AND r.expires_at > n.now)
    ORDER BY t.due_at LIMIT $4 FOR NO KEY UPDATE OF t, s %s
), guarded AS MATERIALIZED (
    SELECT r.replica_id, r.process, r.expires_at > {NOW} AS is_live FROM replicas r
    WHERE r.replica_id <> $2 AND r.replica_id IN (SELECT holder FROM picked) FOR SHARE
), taken AS (
    UPDATE sessions s
    SET fence = CASE WHEN p.is_mine THEN s.fence
            ELSE greatest(s.fence + 1, nextval('fences')) END,
        replica_id = $2,
        taken_from = CASE WHEN p.is_mine THEN s.taken_from WHEN p.holder = $2 THEN $5
            ELSE coalesce(g.process, p.holder) END
    FROM picked p LEFT JOIN guarded g ON g.replica_id = p.holder
    WHERE s.session_id = p.session_id AND g.is_live IS NOT TRUE
    RETURNING p.turn_id, s.fence, p.is_mine, p.now
)
UPDATE turns t SET state = 'running', fence = k.fence, due_at = NULL, changed_at = k.now
FROM taken k WHERE t.turn_id = k.turn_id
RETURNING {_FIELDS}, k.fence, k.is_mine
"""
_LOCK: Final = """
SELECT cancelled_by IS NOT NULL AS is_cancelled FROM turns
WHERE turn_id = $1 AND state = 'running' AND fence = $2 FOR UPDATE
"""
_PENDING: Final = """
SELECT state FROM approvals WHERE approval_id = ANY($1::text[]) ORDER BY approval_id FOR SHARE
"""
_RELEASE: Final = """
UPDATE sessions SET replica_id = CASE WHEN $3 THEN NULL ELSE replica_id END,
    taken_from = CASE WHEN $3 THEN NULL ELSE taken_from END
WHERE session_id = $1 AND fence = $2 AND replica_id IS NOT NULL RETURNING true
"""
_LEAST_WAIT_SECONDS: Final = 1.0
"""The clocks of replicas and the database's may differ: a deadline that has passed for the one only
must not make a loop without a pause.
"""
_SETTLE: Final = f"""
UPDATE turns SET state = $3, request = CASE WHEN $3 = 'ended' THEN '' ELSE request END,
    outcome = $4, pending = $5, wake_at = $6, attempts = $7, fence = NULL, changed_at = n.now,
    due_at = CASE WHEN $3 = 'ended' THEN NULL
        WHEN $3 <> 'waiting' OR $8 THEN n.now + $9
        WHEN $6::double precision IS NOT NULL
            THEN greatest($6, n.now + greatest($9, {_LEAST_WAIT_SECONDS})) END
FROM (SELECT {NOW} AS now) n WHERE turn_id = $2
"""
_NEXT: Final = f"""
UPDATE turns SET due_at = {NOW} WHERE turn_id = (
    SELECT turn_id FROM turns WHERE session_id = $2 AND state <> 'ended' ORDER BY place LIMIT 1
) AND state = 'queued' AND due_at IS NULL
"""
_LEAVE: Final = f"""
UPDATE turns SET fence = NULL, due_at = {NOW} + $4,
    attempts = attempts + CASE WHEN $4 > 0 THEN 1 ELSE 0 END
WHERE turn_id = $2 AND state = 'running' AND fence = $3
"""


def queued_turn(row: DatabaseRow) -> QueuedTurn:
    """A row of `_FIELDS`."""
    turn_id, session_id, request, state, created_at, wake_at, pending, outcome = row[:8]
    progress = (created_at, wake_at, tuple(pending), outcome)
    return QueuedTurn(turn_id, session_id, request, state, *progress, *row[8:12])


async def queue_turn(
    connection: DatabaseConnection,
    turn: QueuedTurn,
    when_busy: QueueRule,
    most_queued: int,
    by: str,
    now: float | None,
) -> QueuedTurn | None:
    """Put a turn behind those of its session, or find the one of its id; None when it is busy."""
    # Those who queue for one session come one after the other.
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('turns ' || $1, 0))", turn.session_id
    )
    earlier = await connection.fetchrow(BY_ID, [turn.turn_id])
    if earlier is not None:
        return queued_turn(earlier)
    if not await connection.fetchval(
        "SELECT EXISTS (SELECT 1 FROM sessions WHERE session_id = $1)", turn.session_id
    ):
        raise SessionNotFound(f"there is no session {turn.session_id!r}")
    # Locked: whoever ends one of them afterwards sees the new one behind it.
    rows = await connection.fetch(f"{NOT_ENDED} FOR NO KEY UPDATE", turn.session_id)
    others = [queued_turn(row) for row in rows]
    gives_way = [o for o in others if o.gives_way and o.state == "waiting"]
    queued = sum(each.state == "queued" for each in others)
    if when_busy == "interrupt":
        gives_way = others
    elif when_busy == "reject" and len(others) > len(gives_way):
        return None
    if when_busy == "enqueue" and queued >= most_queued:
        return None
    for each in gives_way:
        await connection.execute(_CANCEL, now, each.turn_id, by)
    await connection.execute(
        _INSERT,
        now,
        turn.turn_id,
        turn.session_id,
        turn.request,
        turn.gives_way,
        turn.is_kept,
        not others,
    )
    made = await connection.fetchrow(BY_ID, [turn.turn_id])
    return None if made is None else queued_turn(made)


async def claim_turns(
    connection: DatabaseConnection,
    me: ReplicaIdentity,
    limit: int,
    session_id: str | None,
    *,
    only_open: bool,
) -> list[ClaimedTurn]:
    """Take up turns that are due, with the leases of their sessions."""
    orphans = sorted(me.held.orphans())
    await _find_due(connection, me, session_id)
    # One that is asked for by name is waited for; of all others somebody else's are left out.
    statement = CLAIM % ("SKIP LOCKED" if session_id is None else "")
    rows = await connection.fetch(
        statement, me.now, me.replica_id, orphans, limit, me.process, session_id, only_open
    )
    claimed = [
        ClaimedTurn(queued_turn(row), Lease(row[1], me.process, row[12]), was_held=row[13])
        for row in rows
    ]
    # Sessions are opened one after the other: of turns that were cut off together, the one that
    # was sent first must not be the last to go on every time.
    return sorted(claimed, key=lambda each: each.turn.created_at)


async def due_sessions(
    connection: DatabaseConnection, me: ReplicaIdentity, limit: int
) -> list[str]:
    """The sessions whose turns are due, the longest due first."""
    orphans = sorted(me.held.orphans())
    await _find_due(connection, me, None)
    rows = await connection.fetch(DUE_SESSIONS, me.now, me.replica_id, orphans, limit)
    return [row[0] for row in rows]


async def _find_due(
    connection: DatabaseConnection, me: ReplicaIdentity, session_id: str | None
) -> None:
    """Mark as due what became so without anybody writing it down: a replica went away; and of a
    session that is asked for by name, a request is no more.
    """
    orphans = sorted(me.held.orphans())
    await connection.execute(_REVIVE, me.now, me.replica_id, orphans, session_id)
    if session_id is not None:
        await connection.execute(WITHDRAWN, me.now, session_id)


async def settle_turn(
    connection: DatabaseConnection,
    claimed: ClaimedTurn,
    settled: QueuedTurn,
    now: float | None,
    *,
    releases: bool,
    pause_seconds: float,
) -> None:
    """Save what became of a turn, let its session go, and make the turn behind it due."""
    lease, turn_id = claimed.lease, claimed.turn.turn_id
    # A decision comes either before, and is seen here, or after, and then it sees the turn wait.
    rows = await connection.fetch(_PENDING, list(settled.pending)) if settled.pending else []
    is_decided = any(row[0] != "pending" for row in rows)
    turn = await connection.fetchrow(_LOCK, turn_id, lease.fence)
    is_ours = turn and await connection.fetchval(_RELEASE, lease.session_id, lease.fence, releases)
    if turn is None or not is_ours:
        raise lost(lease)
    await connection.execute(
        _SETTLE,
        now,
        turn_id,
        settled.state,
        settled.outcome,
        list(settled.pending),
        settled.wake_at,
        settled.failures,
        is_decided or turn["is_cancelled"],
        pause_seconds,
    )
    if settled.state == "ended":
        await connection.execute(_NEXT, now, lease.session_id)


async def leave_turn(
    connection: DatabaseConnection,
    claimed: ClaimedTurn,
    now: float | None,
    *,
    pause_seconds: float,
) -> None:
    """Stop running a turn; nothing happens when another replica has taken it up."""
    of_run = (claimed.turn.turn_id, claimed.lease.fence)
    await connection.execute(_LEAVE, now, *of_run, pause_seconds)


async def cancel_turn(
    connection: DatabaseConnection, session_id: str, by: str, now: float | None
) -> QueuedTurn | None:
    """Cancel the first turn of a session that has not ended."""
    row = await connection.fetchrow(f"{NOT_ENDED} LIMIT 1 FOR NO KEY UPDATE", session_id)
    if row is None:
        return None
    await connection.execute(_CANCEL, now, row["turn_id"], by)
    rows = await connection.fetch(BY_ID, [row["turn_id"]])
    return queued_turn(rows[0])


async def approval_decided(
    connection: DatabaseConnection, session_id: str, approval_id: str
) -> None:
    """Make the turn that waits for this request due, in the transaction of the decision."""
    await connection.execute(_DECIDED, session_id, approval_id)
