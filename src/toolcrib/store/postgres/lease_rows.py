"""Leases as rows: a session names its replica, and the replica's row says how long that counts.

Whoever takes a session from a replica locks the row of that replica. So a renewal comes either
before, and the session is not taken, or after, and then it sees that it was late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import LeaseHeld, LedgerBroken, SessionNotFound
from toolcrib.ledger.record import GENESIS
from toolcrib.store.call_codes import OPEN_NUMBERS
from toolcrib.store.codec import encode_settings
from toolcrib.store.leases import Holder, is_gone, lost
from toolcrib.store.postgres.parameters import findable
from toolcrib.store.postgres.partitions import ensure_week
from toolcrib.store.postgres.row_deletion import delete_rows
from toolcrib.store.postgres.summaries import count_again
from toolcrib.store.store import Lease, check_end
from toolcrib.store.stored_text import check_new_id

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection
    from toolcrib.store.postgres.held_leases import HeldLeases

GENESIS_BYTES: Final = bytes.fromhex(GENESIS)
NOW: Final = "coalesce($1::double precision, toolcrib_now())"
"""The time: that of a clock that was given, or else the database's. The first parameter."""

_FIND: Final = """
SELECT s.number, s.fence, s.replica_id, s.head_seq, s.head_hash, r.seq, r.hash
FROM sessions s LEFT JOIN LATERAL (
    SELECT seq, hash FROM records WHERE born = s.born AND session = s.number
    ORDER BY seq DESC LIMIT 1
) r ON true
WHERE s.session_id = $1 FOR UPDATE OF s
"""
_CREATE: Final = f"""
INSERT INTO sessions (session_id, created_at, born, owner, settings, head_hash, fence, replica_id)
SELECT $2, t.now, floor(t.now / 604800)::integer, $3, $4, $5, nextval('fences'), $6
FROM (SELECT {NOW} AS now) t
ON CONFLICT (session_id) DO NOTHING RETURNING fence, born
"""
_TAKE: Final = """
UPDATE sessions SET fence = greatest(fence + 1, nextval('fences')), replica_id = $2,
    taken_from = $3 WHERE session_id = $1 RETURNING fence
"""
_HOLDER: Final = f"""
SELECT process, expires_at, expires_at > {NOW} AS is_live FROM replicas
WHERE replica_id = $2 FOR SHARE
"""
_RELEASE: Final = """
UPDATE sessions SET replica_id = NULL, taken_from = NULL WHERE session_id = $1 AND fence = $2
"""
_CHECK: Final = """
SELECT number FROM sessions WHERE session_id = $1 AND fence = $2 AND replica_id IS NOT NULL
FOR UPDATE
"""
# Every table that names a session by its number. Requests come last: whoever changes them makes
# some of those wait who change requests, too, until the end of the transaction.
_OF_NUMBER: Final = (
    *("records", "payloads", "calls", "prompts", "artifacts", "open_calls", "approvals"),
)
_OF_ID: Final = ("grants", "keys")


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """Who takes leases: this replica, and how it judges others."""

    replica_id: str
    process: str
    """What its leases name as their holder."""
    now: float | None
    """The time of a clock that was given; None for the database's."""
    held: HeldLeases
    uses_process_check: bool


async def acquire(
    connection: DatabaseConnection,
    me: ReplicaIdentity,
    session_id: str,
    settings: dict[str, Any] | None,
    owner: str | None,
    *,
    create: bool,
) -> Lease:
    """Take the lease unless a live replica has it; make the session if there is none. In a
    transaction.
    """
    while True:
        row = await connection.fetchrow(_FIND, findable(session_id))
        if row is not None:
            break
        if not create:
            raise SessionNotFound(f"there is no session {session_id!r}")
        check_new_id("session", session_id)
        made = await connection.fetchrow(
            _CREATE,
            me.now,
            session_id,
            owner,
            encode_settings(settings or {}),
            GENESIS_BYTES,
            me.replica_id,
        )
        # None when another replica made it meanwhile.
        if made is not None:
            await ensure_week(connection, made["born"])
            return Lease(session_id, me.process, made["fence"])
    taken_from = await check_free(connection, me, session_id, row["replica_id"])
    _check_last(session_id, row)
    fence = await connection.fetchval(_TAKE, session_id, me.replica_id, taken_from)
    return Lease(session_id, me.process, fence)


async def check_free(
    connection: DatabaseConnection, me: ReplicaIdentity, session_id: str, holder: str | None
) -> str | None:
    """Raise `LeaseHeld`, saying by whom and until when, unless the lease can be taken; returns the
    process of a holder that has not let go.
    """
    if holder is None:
        return None
    if holder == me.replica_id and session_id not in me.held.orphans():
        raise LeaseHeld(f"session {session_id!r} is already open in this process; close it first")
    row = await connection.fetchrow(_HOLDER, me.now, holder)
    if holder == me.replica_id or row is None:
        return holder if row is None else str(row["process"])
    process = Holder.parse(row["process"])
    is_dead = me.uses_process_check and process is not None and is_gone(process)
    if row["is_live"] and not is_dead:
        until = datetime.fromtimestamp(row["expires_at"], UTC).isoformat(timespec="seconds")
        raise LeaseHeld(
            f"session {session_id!r} is written by replica {holder} "
            f"({process.describe() if process else 'an unknown process'}), whose lease runs until "
            f"{until} unless it is renewed; close the session there first"
        )
    if is_dead:
        # So that every query sees at once what only this machine can know.
        await connection.execute("UPDATE replicas SET expires_at = 0 WHERE replica_id = $1", holder)
    return str(row["process"])


async def release(connection: DatabaseConnection, lease: Lease) -> None:
    """Let go of the lease; nothing happens when it is void."""
    await connection.execute(_RELEASE, lease.session_id, lease.fence)


async def check_lease(connection: DatabaseConnection, lease: Lease) -> int:
    """The number of the session. Raises `LeaseLost` unless this lease is the newest and not
    released.
    """
    number = await connection.fetchval(_CHECK, lease.session_id, lease.fence)
    if number is None:
        raise lost(lease)
    return int(number)


async def delete_session(
    connection: DatabaseConnection, me: ReplicaIdentity, session_id: str, last_seq: int | None
) -> int:
    """Delete every row of a session, its own grants too; returns the number that it had. Raises
    `LeaseHeld` while it is written.
    """
    row = await connection.fetchrow(_FIND, findable(session_id))
    if row is None:
        raise SessionNotFound(f"there is no session {session_id!r}")
    await check_free(connection, me, session_id, row["replica_id"])
    check_end(session_id, row["head_seq"], last_seq)
    number = row["number"]
    for table in _OF_NUMBER:
        await delete_rows(connection, table, number)
    for table in _OF_ID:
        await connection.execute(f"DELETE FROM {table} WHERE session_id = $1", session_id)
    # No session id has a slash (`check_session_id`), so these are the values of this one alone.
    await connection.execute("DELETE FROM shared_values WHERE name ^@ $1", f"session/{session_id}/")
    await connection.execute("DELETE FROM sessions WHERE number = $1", number)
    # After a failover the sequence may lie behind the fences that were given out.
    await connection.execute(
        "SELECT setval('fences', $1) FROM fences WHERE last_value < $1", row["fence"]
    )
    return int(number)


async def delete_payloads(connection: DatabaseConnection, lease: Lease, up_to: int) -> int:
    """Delete what can be deleted while the chain still verifies; returns the session's number."""
    number = await check_lease(connection, lease)
    await delete_rows(connection, "payloads", number, f"seq <= {up_to:d}")
    await delete_rows(connection, "artifacts", number)
    ended = f"seq <= {up_to:d} AND status NOT IN ({OPEN_NUMBERS})"
    await delete_rows(connection, "calls", number, ended)
    # A title is words of a payload.
    await count_again(connection, lease.session_id, number)
    await delete_rows(connection, "approvals", number, "state = 'used'")
    return number


def _check_last(session_id: str, row: Any) -> None:
    """The last record must be the one the session's row names, or something was cut off."""
    last = (row["seq"] or 0, row["hash"] or GENESIS_BYTES)
    if last != (row["head_seq"], row["head_hash"]):
        raise LedgerBroken(
            f"the ledger of session {session_id!r} should end at record {row['head_seq']} but does "
            "not; run `toolcrib audit verify`",
            seq=row["head_seq"],
        )
