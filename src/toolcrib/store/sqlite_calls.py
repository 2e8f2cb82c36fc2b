"""The index of calls in SQLite: rows that are written in the transaction of their records.

Names are kept once and rows hold their numbers, so that each index of the table can hold every
column that a query filters by: a query that finds little reads small entries and nothing else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from toolcrib.failures import FAILURE_KINDS
from toolcrib.ledger.encoding import read_payload
from toolcrib.ledger.events import CallInDoubt, CallStarted
from toolcrib.ledger.prompt_events import ModelResponded
from toolcrib.ledger.record import Record
from toolcrib.prices.table import Prices
from toolcrib.store.call_codes import (
    ACTORS,
    DECISIONS,
    KINDS,
    OPEN_NUMBERS,
    STATUSES,
    choice_of,
    code_of,
)
from toolcrib.store.call_index import (
    INDEXED_KINDS,
    PROMPT_KINDS,
    PromptFacts,
    Spent,
    changed_row,
    model_row,
    prompt_facts,
    resumed,
    with_spent,
)
from toolcrib.store.call_query import NANO, OPEN_STATUSES, CallRow, is_hosted
from toolcrib.store.sqlite_summaries import SummaryChanges

Row = tuple[Any, ...]
PriceSource = Callable[[], Prices]
"""Where prices come from, asked when the first request to a model is written."""

COLUMNS: Final = (
    "id, session, seq, last_seq, kind, at, status, call_id, owner, principal, transport, tool,"
    " source, model, failure, decision, decided_by, approver, duration, waited, parent, turn,"
    " input_tokens, output_tokens, nanos, prices"
)
_INSERT: Final = f"INSERT OR REPLACE INTO calls ({COLUMNS}) VALUES ({', '.join('?' * 26)})"
_OPEN_ROW: Final = (
    f"SELECT {COLUMNS} FROM calls INDEXED BY calls_open"
    f" WHERE session = ? AND call_id = ? AND status IN ({OPEN_NUMBERS})"
)
_SPENT: Final = (
    "SELECT sum(input_tokens), sum(output_tokens), sum(nanos), max(prices) FROM calls"
    " INDEXED BY calls_by_parent WHERE session = ? AND parent = ?"
    " AND parent IS NOT NULL AND input_tokens IS NOT NULL"
)
_HAS_PARTS: Final = (
    "SELECT 1 FROM calls INDEXED BY calls_by_parent WHERE session > 0"
    " AND parent IS NOT NULL AND input_tokens IS NOT NULL LIMIT 1"
)
_HAS_OPEN: Final = (
    "SELECT 1 FROM calls INDEXED BY calls_open WHERE session > 0"
    f" AND status IN ({OPEN_NUMBERS}) LIMIT 1"
)
_STARTS: Final = (
    "SELECT r.id, r.session_id, r.seq, r.kind, r.at, r.call_id, p.payload, r.payload_digest,"
    " r.previous, r.hash FROM records r JOIN payloads p ON p.id = r.id"
    " WHERE r.session_id = ? AND r.call_id = ? AND r.kind = 'call.started' ORDER BY r.seq LIMIT 1"
)
_PROMPT: Final = (
    "SELECT principal, transport, provider, model, parent FROM prompts"
    " WHERE session = ? AND turn = ?"
)
_KEEP_PROMPT: Final = "INSERT OR REPLACE INTO prompts VALUES (?, ?, ?, ?, ?, ?, ?)"


def number_of(connection: sqlite3.Connection, kind: str, name: str | None) -> int | None:
    """The number of a name, which is given one if it has none."""
    if name is None:
        return None
    row = connection.execute(
        "SELECT id FROM names WHERE kind = ? AND name = ?", (kind, name)
    ).fetchone()
    if row is not None:
        return row[0]
    return connection.execute(
        "INSERT INTO names (kind, name) VALUES (?, ?)", (kind, name)
    ).lastrowid


class CallChanges:
    """What one transaction changes in the index."""

    def __init__(
        self, connection: sqlite3.Connection, prices: PriceSource, *, is_repriced: bool = False
    ) -> None:
        self._connection = connection
        self._prices = prices
        self._is_repriced = is_repriced
        self._numbers: dict[tuple[str, str], int | None] = {}
        self._owners: dict[str, str | None] = {}
        self._rows: dict[int, CallRow] = {}
        self._open: dict[tuple[str, str], int] = {}
        self._has_parts = False
        self._summaries = SummaryChanges(connection)
        # Asked once: in most stores no call waits, and no tool asks a model.
        self._may_be_open: bool | None = None
        self._may_have_spent: bool | None = None

    def take(self, row_id: int, record: Record) -> None:
        """Take a new record, with the number of its row in the table of records."""
        if record.kind not in INDEXED_KINDS or record.payload is None:
            return
        if record.kind in PROMPT_KINDS:
            self._keep_prompt(record)
        elif record.kind == ModelResponded.kind:
            self._add_model(row_id, record)
        else:
            self._change(row_id, record)

    def write(self) -> None:
        """Write the rows."""
        if self._rows:
            rows = [self._values(row_id, row) for row_id, row in self._rows.items()]
            self._connection.executemany(_INSERT, rows)
            self._may_be_open = None
            self._may_have_spent = None
        self._summaries.write()
        self._rows, self._open, self._has_parts = {}, {}, False

    def _change(self, row_id: int, record: Record) -> None:
        session_id, call_id = record.session_id, record.call_id or ""
        known = self._open_row(session_id, call_id)
        # A start alone is no row: while it runs, the call lies in the table of open calls.
        if known is None and record.kind == CallStarted.kind:
            return
        counted = known[1] if known else None
        if known is None and record.kind == CallInDoubt.kind:
            known = self._start_of(session_id, call_id)
        row = changed_row(known[1] if known else None, record, self._owner(session_id))
        if row is None:
            return
        row_id = known[0] if known else row_id
        if row.status in OPEN_STATUSES:
            self._open[session_id, call_id] = row_id
        else:
            self._open.pop((session_id, call_id), None)
            row = self._with_spent(row)
        self._summaries.take_row(counted, row)
        self._rows[row_id] = row

    def _open_row(self, session_id: str, call_id: str) -> tuple[int, CallRow] | None:
        row_id = self._open.get((session_id, call_id))
        if row_id is not None:
            return row_id, self._rows[row_id]
        if not self._has_open_rows():
            return None
        session = self._number("session", session_id)
        row = self._connection.execute(_OPEN_ROW, (session, call_id)).fetchone()
        # It may have ended in this transaction, which has not written that yet.
        if row is None or row[0] in self._rows:
            return None
        names = names_of(self._connection, [row])
        return row[0], row_of(row, names)

    def _has_open_rows(self) -> bool:
        if self._may_be_open is None:
            self._may_be_open = self._connection.execute(_HAS_OPEN).fetchone() is not None
        return self._may_be_open

    def _start_of(self, session_id: str, call_id: str) -> tuple[int, CallRow] | None:
        """The row that the start of a call would have begun."""
        start = self._connection.execute(_STARTS, (session_id, call_id)).fetchone()
        if start is None:
            return None
        row = changed_row(None, Record(*start[1:]), self._owner(session_id))
        return None if row is None else (start[0], row)

    def _with_spent(self, row: CallRow) -> CallRow:
        """A call that has ended, with what was spent within it."""
        if is_hosted(row):
            self._has_parts = self._has_parts or row.parent_call_id is not None
            return row
        if self._has_parts:
            self.write()
        if self._may_have_spent is None:
            self._may_have_spent = self._connection.execute(_HAS_PARTS).fetchone() is not None
        if not self._may_have_spent:
            return row
        session = self._number("session", row.session_id)
        spent = self._connection.execute(_SPENT, (session, row.call_id)).fetchone()
        tokens_in, tokens_out, nanos, prices = spent
        if tokens_in is None:
            return row
        self._has_parts = row.parent_call_id is not None
        name = None if prices is None else self._name(prices)
        return with_spent(row, Spent(tokens_in, tokens_out or 0, nanos, name))

    def _add_model(self, row_id: int, record: Record) -> None:
        turn = read_payload(record.payload or b"{}").get("turn") or 0
        prompt = self._prompt(record.session_id, turn)
        owner = self._owner(record.session_id)
        row = model_row(record, prompt, owner, self._prices(), is_repriced=self._is_repriced)
        self._rows[row_id] = row
        self._summaries.take_row(None, row)
        self._has_parts = self._has_parts or row.parent_call_id is not None

    def _prompt(self, session_id: str, turn: int) -> PromptFacts | None:
        session = self._number("session", session_id)
        row = self._connection.execute(_PROMPT, (session, turn)).fetchone()
        return None if row is None else PromptFacts(*row)

    def _keep_prompt(self, record: Record) -> None:
        payload = read_payload(record.payload or b"{}")
        self._summaries.take_prompt(record, payload)
        turn = payload.get("turn") or 0
        facts = resumed(self._prompt(record.session_id, turn), prompt_facts(record))
        key = (self._number("session", record.session_id), turn)
        about = (facts.principal, facts.transport, facts.provider, facts.model)
        self._connection.execute(_KEEP_PROMPT, (*key, *about, facts.parent_call_id))

    def _owner(self, session_id: str) -> str | None:
        if session_id not in self._owners:
            row = self._connection.execute(
                "SELECT owner FROM sessions WHERE session_id = ?", (session_id,)
            ).fetchone()
            self._owners[session_id] = row[0] if row else None
        return self._owners[session_id]

    def _number(self, kind: str, name: str | None) -> int | None:
        if name is None:
            return None
        key = (kind, name)
        if key not in self._numbers:
            self._numbers[key] = number_of(self._connection, kind, name)
        return self._numbers[key]

    def _name(self, number: int) -> str:
        (name,) = self._connection.execute(
            "SELECT name FROM names WHERE id = ?", (number,)
        ).fetchone()
        return name

    def _values(self, row_id: int, row: CallRow) -> Row:
        number = self._number
        return (
            row_id,
            number("session", row.session_id),
            row.seq,
            row.last_seq,
            KINDS.index(row.kind),
            row.at,
            STATUSES.index(row.status),
            row.call_id,
            number("actor", row.owner),
            number("actor", row.principal),
            number("transport", row.transport),
            number("tool", row.tool),
            number("source", row.source),
            number("model", row.model),
            code_of(FAILURE_KINDS, row.failure),
            code_of(DECISIONS, row.decision),
            code_of(ACTORS, row.decided_by),
            number("actor", row.approver),
            row.duration_seconds,
            row.waited_seconds,
            row.parent_call_id,
            row.turn,
            row.input_tokens,
            row.output_tokens,
            None if row.cost is None else round(row.cost * NANO),
            number("prices", row.prices),
        )


_NAMED: Final = (1, 8, 9, 10, 11, 12, 13, 17, 25)
"""The places of the columns that hold numbers of names."""


def names_of(connection: sqlite3.Connection, rows: Sequence[Row]) -> dict[int, str]:
    """The names that rows of the table refer to, by number."""
    numbers = {row[place] for row in rows for place in _NAMED if row[place] is not None}
    marks = ", ".join("?" * len(numbers))
    pairs = connection.execute(
        f"SELECT id, name FROM names WHERE id IN ({marks})", sorted(numbers)
    ).fetchall()
    return dict(pairs)


def row_of(row: Row, names: Mapping[int, str]) -> CallRow:
    """A row of the table, with its names."""
    return CallRow(
        session_id=names[row[1]],
        seq=row[2],
        last_seq=row[3],
        kind=choice_of(KINDS, row[4]) or "tool",
        at=row[5],
        status=choice_of(STATUSES, row[6]) or "in_doubt",
        call_id=row[7],
        owner=names.get(row[8]),
        principal=names.get(row[9]),
        transport=names.get(row[10]),
        tool=names.get(row[11]),
        source=names.get(row[12]),
        model=names.get(row[13]),
        failure=choice_of(FAILURE_KINDS, row[14]),
        decision=choice_of(DECISIONS, row[15]),
        decided_by=choice_of(ACTORS, row[16]),
        approver=names.get(row[17]),
        duration_seconds=row[18],
        waited_seconds=row[19],
        parent_call_id=row[20],
        turn=row[21],
        input_tokens=row[22],
        output_tokens=row[23],
        cost=None if row[24] is None else row[24] / NANO,
        prices=names.get(row[25]),
    )


_RECORDS: Final = (
    "SELECT r.id, r.session_id, r.seq, r.kind, r.at, r.call_id, p.payload, r.payload_digest,"
    " r.previous, r.hash FROM records r JOIN payloads p ON p.id = r.id"
    f" WHERE r.id > ? AND r.kind IN ({', '.join('?' * len(INDEXED_KINDS))})"
    " ORDER BY r.id LIMIT ?"
)
_AT_ONCE: Final = 2_000


def fill_index(connection: sqlite3.Connection, prices: PriceSource) -> int:
    """Make the index anew from all records; returns how many of them it was made of."""
    for table in ("calls", "prompts", "names", "summaries"):
        connection.execute(f"DELETE FROM {table}")
    kinds, last, count = sorted(INDEXED_KINDS), 0, 0
    while rows := connection.execute(_RECORDS, (last, *kinds, _AT_ONCE)).fetchall():
        changes = CallChanges(connection, prices, is_repriced=True)
        for row in rows:
            changes.take(row[0], Record(*row[1:]))
        changes.write()
        last, count = rows[-1][0], count + len(rows)
    return count


_LAST_SEQ: Final = 2**63 - 1
_NAMES_OF_CALLS: Final = ("tool", "model", "owner", "principal", "approver")
"""The columns with names of people and of what they use; each has an index."""


def forget_calls(connection: sqlite3.Connection, session_id: str, up_to: int | None) -> None:
    """Delete the rows of ended calls up to a record, or all rows of a session; and the names that
    no other row has.
    """
    session = connection.execute(
        "SELECT id FROM names WHERE kind = 'session' AND name = ?", (session_id,)
    ).fetchone()
    if session is None:
        return
    # By the records, which are indexed by session: for the index of calls that would cost each call
    # of a busy server a page.
    rows = "FROM calls WHERE id IN (SELECT id FROM records WHERE session_id = ? AND seq <= ?)"
    if up_to is not None:
        rows += f" AND status NOT IN ({OPEN_NUMBERS})"
    parameters = (session_id, _LAST_SEQ if up_to is None else up_to)
    columns = " UNION ".join(f"SELECT {column} {rows}" for column in _NAMES_OF_CALLS)
    used = connection.execute(columns, parameters * len(_NAMES_OF_CALLS)).fetchall()
    connection.execute(f"DELETE {rows}", parameters)
    if up_to is None:
        connection.execute("DELETE FROM prompts WHERE session = ?", session)
        connection.execute("DELETE FROM names WHERE id = ?", session)
    unused = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM calls INDEXED BY calls_by_{column} WHERE {column} = names.id)"
        for column in _NAMES_OF_CALLS
    )
    connection.executemany(f"DELETE FROM names WHERE id = ? AND {unused}", used)
