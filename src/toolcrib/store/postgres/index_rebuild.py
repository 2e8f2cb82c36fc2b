"""The index of calls made anew from the ledgers, session by session, while others are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolcrib.ledger.record import Record
from toolcrib.prices.table import Prices
from toolcrib.store.call_index import INDEXED_KINDS
from toolcrib.store.codec import decode_decided, decode_request
from toolcrib.store.postgres.call_rows import (
    call_values,
    insert_calls,
    keep_prompts,
    prompt_values,
)
from toolcrib.store.postgres.inbox_query import searched_by
from toolcrib.store.postgres.indexed_session import IndexedSession
from toolcrib.store.postgres.summaries import keep_count

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

SESSIONS: Final = "SELECT number FROM sessions WHERE number > $1 ORDER BY number LIMIT 500"
_AT_ONCE: Final = 2_000
# The lock keeps the session's writer waiting: what it computed before is what the ledger says, too.
_SESSION: Final = "SELECT session_id, born FROM sessions WHERE number = $1 FOR UPDATE"
_RECORDS: Final = """
SELECT r.seq, r.kind, r.at, r.call_id, (
    SELECT p.payload FROM payloads p
    WHERE p.born = r.born AND p.session = r.session AND p.seq = r.seq
), r.payload_digest, r.previous, r.hash
FROM records r WHERE r.born = $1 AND r.session = $2 AND r.seq > $3 AND r.kind = ANY($4::text[])
ORDER BY r.seq LIMIT $5
"""
_INSERT: Final = f"""
WITH moved AS (SELECT 1::bigint AS place, number, owner FROM sessions WHERE number = $1)
{insert_calls(2)}
"""
_REQUESTS: Final = """
SELECT approval_id, request, decided FROM approvals WHERE session = $1 AND tool IS NULL
"""
_SEARCHED_BY: Final = """
UPDATE approvals SET tool = $2, principal = $3,
    groups = ARRAY(SELECT json_array_elements_text($4::json)), for_anyone = $5, verdict = $6
WHERE approval_id = $1
"""


async def rebuild_session(connection: DatabaseConnection, number: int, prices: Prices) -> int:
    """Make the rows of a session anew, with these prices; returns how many records they are made
    of. In a transaction.
    """
    session = await connection.fetchrow(_SESSION, number)
    if session is None:
        return 0
    for table in ("calls", "prompts"):
        await connection.execute(f"DELETE FROM {table} WHERE session = $1", number)
    calls = IndexedSession(0, is_new=True)
    kinds, last, read = sorted(INDEXED_KINDS), 0, 0
    while rows := await connection.fetch(_RECORDS, session["born"], number, last, kinds, _AT_ONCE):
        for row in rows:
            digests = (value.hex() for value in row[5:])
            record = Record(session["session_id"], *row[:5], *digests)
            calls.take(record, prices, is_repriced=True)
        await _write(connection, number, calls)
        last, read = rows[-1]["seq"], read + sum(row[4] is not None for row in rows)
    await keep_count(connection, number, calls.count)
    await _search_requests(connection, number)
    return read


async def _write(connection: DatabaseConnection, number: int, calls: IndexedSession) -> None:
    """Write rows and prompts; the counts are those of the whole session."""
    values = [call_values(1, row) for row in calls.rows.values()]
    if values:
        await connection.execute(_INSERT, number, *zip(*values, strict=True))
    prompts = [prompt_values(number, turn, facts) for turn, facts in calls.kept_prompts.items()]
    await keep_prompts(connection, prompts)
    calls.rows, calls.kept_prompts = {}, {}


async def _search_requests(connection: DatabaseConnection, number: int) -> None:
    """Requests that a version without an index has filed are found from now on, too."""
    for approval_id, request, decided in await connection.fetch(_REQUESTS, number):
        verdict = None if decided is None else decode_decided(decided).decision.kind
        about = searched_by(decode_request(request))
        await connection.execute(_SEARCHED_BY, approval_id, *about, verdict)
