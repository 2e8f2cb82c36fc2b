"""Titles and counts of sessions in SQLite: written in the transaction of the records that they are
made of, and read by listings.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any, Final

from toolcrib.ledger.encoding import read_payload
from toolcrib.ledger.prompt_events import PromptStarted
from toolcrib.ledger.record import Record
from toolcrib.store.call_codes import status_numbers
from toolcrib.store.call_query import FAILED_STATUSES, CallRow
from toolcrib.store.session_query import METADATA_PATH, SessionCount, SessionQuery

Condition = tuple[str, tuple[object, ...]]
"""A part of a WHERE and its parameters."""

_COUNT: Final = (
    "INSERT INTO summaries VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session_id) DO UPDATE SET"
    " prompt = ifnull(prompt, excluded.prompt), tool = ifnull(tool, excluded.tool),"
    " prompts = prompts + excluded.prompts, calls = calls + excluded.calls,"
    " failures = failures + excluded.failures,"
    " nanos = CASE WHEN excluded.nanos IS NULL THEN nanos ELSE ifnull(nanos, 0) + excluded.nanos"
    " END"
)
_PROMPTS: Final = (
    "SELECT r.session_id, r.seq, r.kind, r.at, r.call_id, p.payload, r.payload_digest, r.previous,"
    " r.hash FROM records r JOIN payloads p ON p.id = r.id"
    f" WHERE r.session_id = ? AND r.kind = '{PromptStarted.kind}' ORDER BY r.seq"
)
_FAILED: Final = status_numbers(sorted(FAILED_STATUSES))
# The kinds are the numbers of `call_codes.KINDS`: 0 is a tool, 1 a model. A provider-run call is
# one without tokens of its own.
_TOTALS: Final = (
    f"SELECT total(kind = 0), total(kind = 0 AND status IN ({_FAILED})),"
    " sum(CASE WHEN kind = 1 OR (input_tokens = 0 AND output_tokens IS NULL) THEN nanos END)"
    " FROM calls WHERE id IN (SELECT id FROM records WHERE session_id = ?)"
)
_FIRST_TOOL: Final = (
    "SELECT n.name FROM calls c JOIN names n ON n.id = c.tool"
    " WHERE c.kind = 0 AND c.id IN (SELECT id FROM records WHERE session_id = ?)"
    " ORDER BY c.id LIMIT 1"
)
_READ: Final = (
    "SELECT s.session_id, m.prompt, m.tool, ifnull(m.prompts, 0), ifnull(m.calls, 0),"
    " ifnull(m.failures, 0), m.nanos, (SELECT count(*) FROM approvals a"
    " WHERE a.session_id = s.session_id AND a.state = 'pending')"
    " FROM sessions s LEFT JOIN summaries m ON m.session_id = s.session_id"
)
_METADATA: Final = f"json_extract(CAST(s.settings AS TEXT), '$.{'.'.join(METADATA_PATH)}')"
_TEXTS: Final = ("ifnull(m.prompt, m.tool)", "s.session_id", "s.owner", _METADATA)
_PENDING: Final = "(SELECT session_id FROM approvals WHERE state = 'pending')"


class SummaryChanges:
    """What one transaction changes in the counts of sessions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._counts: dict[str, SessionCount] = {}

    def take_prompt(self, record: Record, facts: dict[str, Any]) -> None:
        """Count a record that starts a prompt."""
        self._count(record.session_id).take_prompt(record, facts)

    def take_row(self, before: CallRow | None, row: CallRow) -> None:
        """Count a row of the index of calls, which was `before` in the file until now."""
        self._count(row.session_id).take_row(before, row)

    def write(self) -> None:
        """Write the counts."""
        if self._counts:
            rows = [_row(session_id, count) for session_id, count in self._counts.items()]
            self._connection.executemany(_COUNT, rows)
            self._counts = {}

    def _count(self, session_id: str) -> SessionCount:
        count = self._counts.get(session_id)
        if count is None:
            count = self._counts[session_id] = SessionCount()
        return count


def _row(session_id: str, count: SessionCount) -> tuple[Any, ...]:
    about = (count.prompt, count.tool, count.prompts, count.calls, count.failures, count.nanos)
    return (session_id, *about)


def fill_summaries(connection: sqlite3.Connection) -> None:
    """Make the counts of every session anew, from the index of calls and the prompts."""
    for (session_id,) in connection.execute("SELECT session_id FROM sessions").fetchall():
        count_again(connection, session_id)


def count_again(connection: sqlite3.Connection, session_id: str) -> None:
    """Make the counts of a session anew: of what its records still say."""
    of_session = (session_id,)
    count = SessionCount()
    for row in connection.execute(_PROMPTS, of_session):
        record = Record(*row)
        count.take_prompt(record, read_payload(record.payload or b"{}"))
    calls, failures, count.nanos = connection.execute(_TOTALS, of_session).fetchone()
    count.calls, count.failures = int(calls), int(failures)
    first = connection.execute(_FIRST_TOOL, of_session).fetchone()
    count.tool = None if first is None else first[0]
    connection.execute("DELETE FROM summaries WHERE session_id = ?", of_session)
    connection.execute(_COUNT, _row(session_id, count))


def summaries_statement(session_ids: Collection[str]) -> str:
    """The statement that reads the counts of so many sessions, whose ids are its parameters."""
    return f"{_READ} WHERE s.session_id IN ({', '.join('?' * len(session_ids))})"


def session_conditions(connection: sqlite3.Connection, query: SessionQuery) -> list[Condition]:
    """The filters of a query, for sessions `s` and their summaries `m`."""
    conditions: list[Condition] = [
        (condition, (value,))
        for condition, value in (
            ("s.owner = ?", query.owner),
            ("s.created_at >= ?", query.since),
            ("s.created_at < ?", query.until),
        )
        if value is not None
    ]
    if query.has_failures is not None:
        conditions.append((f"(ifnull(m.failures, 0) > 0) = {int(query.has_failures)}", ()))
    if query.is_waiting is not None:
        conditions.append((f"(s.session_id IN {_PENDING}) = {int(query.is_waiting)}", ()))
    if query.tool is not None:
        conditions.append((_with_tool(connection, query), ()))
    return [*conditions, *map(_with_word, query.words)]


def _with_tool(connection: sqlite3.Connection, query: SessionQuery) -> str:
    tools = connection.execute("SELECT id, name FROM names WHERE kind = 'tool'").fetchall()
    # SQLite has no plan for an index and an empty list: no name has the number -1.
    matches = [-1, *(number for number, name in tools if query.is_tool(name))]
    numbers = ", ".join(map(str, matches))
    return (
        "s.session_id IN (SELECT name FROM names WHERE id IN (SELECT session FROM calls"
        f" INDEXED BY calls_by_tool WHERE tool IN ({numbers}) AND tool IS NOT NULL))"
    )


def _with_word(word: str) -> Condition:
    if word.isascii():
        # LIKE takes capitals and small letters for the same where they are ASCII.
        quoted = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        text, parts = f"%{quoted}%", [f"{each} LIKE ? ESCAPE '\\'" for each in _TEXTS]
    else:
        text, parts = word.casefold(), [f"instr(casefold({each}), ?)" for each in _TEXTS]
    return f"({' OR '.join(parts)})", (text,) * len(parts)


def casefold(text: object) -> str | None:
    """The SQL function that makes letters of any alphabet comparable."""
    return None if text is None else str(text).casefold()
