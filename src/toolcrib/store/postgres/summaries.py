"""Titles and counts of sessions on PostgreSQL, and the filters of listings of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolcrib.ledger.encoding import read_payload
from toolcrib.ledger.prompt_events import PromptStarted
from toolcrib.ledger.record import GENESIS, Record
from toolcrib.store.call_codes import status_numbers
from toolcrib.store.call_query import FAILED_STATUSES
from toolcrib.store.session_query import SessionCount, SessionQuery

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection
    from toolcrib.store.postgres.parameters import Parameters

SUMMARIES: Final = """
SELECT s.session_id, s.first_prompt, s.first_tool, s.prompts, s.calls, s.failures, s.nanos,
    (SELECT count(*) FROM approvals a WHERE a.session = s.number AND a.state = 'pending')
FROM sessions s WHERE s.session_id = ANY($1::text[])
"""
TITLE_FIELDS: Final = "s.first_prompt, s.first_tool"
_TEXTS: Final = (
    *("coalesce(s.first_prompt, s.first_tool)", "s.session_id", "s.owner"),
    "toolcrib_metadata(s.settings)",
)
_IS_WAITING: Final = (
    "EXISTS (SELECT 1 FROM approvals a WHERE a.session = s.number AND a.state = 'pending')"
)
_COUNTED: Final = """
UPDATE sessions SET first_prompt = $2, first_tool = $3, prompts = $4, calls = $5, failures = $6,
    nanos = $7 WHERE number = $1
"""
_PROMPTS: Final = f"""
SELECT r.seq, r.at, (
    SELECT p.payload FROM payloads p
    WHERE p.born = r.born AND p.session = r.session AND p.seq = r.seq
) FROM records r
WHERE r.born = (SELECT born FROM sessions WHERE number = $1) AND r.session = $1
    AND r.kind = '{PromptStarted.kind}' ORDER BY r.seq
"""
# The kinds are the numbers of `call_codes.KINDS`: 0 is a tool, 1 a model. A provider-run call is
# one without tokens of its own.
_TOTALS: Final = f"""
SELECT count(*) FILTER (WHERE kind = 0),
    count(*) FILTER (WHERE kind = 0 AND status IN ({status_numbers(sorted(FAILED_STATUSES))})),
    sum(nanos) FILTER (WHERE kind = 1 OR (input_tokens = 0 AND output_tokens IS NULL))::bigint
FROM calls WHERE session = $1
"""
_FIRST_TOOL: Final = """
SELECT tool FROM calls WHERE session = $1 AND kind = 0 AND tool IS NOT NULL ORDER BY seq LIMIT 1
"""


async def count_again(connection: DatabaseConnection, session_id: str, number: int) -> None:
    """Make the counts of a session anew: of what its records still say."""
    count = SessionCount()
    for seq, at, payload in await connection.fetch(_PROMPTS, number):
        if payload is None:
            continue
        digests = ("", GENESIS, "")
        record = Record(session_id, seq, PromptStarted.kind, at, None, payload, *digests)
        count.take_prompt(record, read_payload(payload))
    totals = await connection.fetchrow(_TOTALS, number)
    if totals is not None:
        count.calls, count.failures, count.nanos = totals
    count.tool = await connection.fetchval(_FIRST_TOOL, number)
    await keep_count(connection, number, count)


async def keep_count(connection: DatabaseConnection, number: int, count: SessionCount) -> None:
    """Replace the counts of a session."""
    about = (count.prompt, count.tool, count.prompts, count.calls, count.failures, count.nanos)
    await connection.execute(_COUNTED, number, *about)


def session_conditions(query: SessionQuery, tools: list[str], put: Parameters) -> list[str]:
    """The filters of a query for sessions `s`, but for words of other letters than ASCII. `tools`
    are the names of the tools that it asks for.
    """
    conditions = [
        f"{condition} {put(value)}"
        for condition, value in (
            ("s.owner =", query.owner),
            ("s.created_at >=", query.since),
            ("s.created_at <", query.until),
        )
        if value is not None
    ]
    if query.has_failures is not None:
        conditions.append("s.failures > 0" if query.has_failures else "s.failures <= 0")
    if query.is_waiting is not None:
        conditions.append(_IS_WAITING if query.is_waiting else f"NOT {_IS_WAITING}")
    if query.tool is not None:
        conditions.append(
            "EXISTS (SELECT 1 FROM calls c WHERE c.session = s.number"
            f" AND c.tool = ANY({put(tools)}::text[]))"
        )
    for word in query.words:
        if word.isascii():
            # ILIKE takes capitals and small letters for the same, for certain where they are ASCII.
            quoted = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            pattern = put(f"%{quoted}%".replace("\0", "\ufffd"))
            conditions.append(f"({' OR '.join(f'{text} ILIKE {pattern}' for text in _TEXTS)})")
    return conditions
