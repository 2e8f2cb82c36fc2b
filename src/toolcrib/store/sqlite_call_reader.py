"""Queries of the index of calls, each on a connection of its own: a long one delays no other read.

Which index a query uses is chosen here and not by SQLite, which knows nothing of how calls are
spread: every index holds every filter, and a query reads one of them from its end.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from toolcrib.failures import FAILURE_KINDS
from toolcrib.store.call_codes import (
    ACTORS,
    DECISIONS,
    KINDS,
    OPEN_NUMBERS,
    STATUSES,
    status_numbers,
)
from toolcrib.store.call_query import (
    FAILED_STATUSES,
    NANO,
    SPANS,
    CallQuery,
    CallRow,
    Place,
    PrincipalUse,
    SumKey,
    UsageSum,
    cursor_at,
    kind_summed,
    page_of,
    percentile,
    place_of,
    span_name,
    uses_of,
)
from toolcrib.store.codec import decode_open_call
from toolcrib.store.sqlite_calls import COLUMNS, Row, names_of, row_of
from toolcrib.store.sqlite_schema import SqliteFile
from toolcrib.store.store import StorePage
from toolcrib.store.vault import Vault

_NOBODY: Final = -1
"""The number of a name that no row has."""
_MOST_BRANCHES: Final = 64
"""So many names that a pattern matches are looked for one by one; more, in one run over all."""
_MOST_RECORDS: Final = 20_000
"""All calls of a session of so many records are looked through; in a longer one, those with a rarer
property are looked for among the calls of all sessions that have it.
"""
_LAST_ID: Final = 2**63 - 1
_RUNNING_FROM: Final = 2**62
"""Numbers of calls that only run, which have none in the index."""
_RUNNING: Final = (
    "SELECT o.opened, o.session_id, s.owner, o.fact, o.vault FROM open_calls o"
    " JOIN sessions s ON s.session_id = o.session_id"
    " LEFT JOIN names n ON n.kind = 'session' AND n.name = o.session_id"
    " WHERE NOT EXISTS (SELECT 1 FROM calls c INDEXED BY calls_open WHERE c.session = n.id"
    f" AND c.call_id = o.call_id AND c.status IN ({OPEN_NUMBERS}))"
)
_STRAY: Final = (
    "SELECT count(*) FROM calls c LEFT JOIN names n ON n.id = c.session"
    " LEFT JOIN records r ON r.id = c.id WHERE r.session_id IS NOT n.name"
)
_LOW_BITS: Final = 2**31 - 1
_SUM_KEYS: Final[dict[SumKey, str]] = {
    **{key: f"CAST(at / {span} AS INTEGER)" for key, span in SPANS.items()},
    "tool": "tool",
    # Two numbers of names in one: neither has more than 31 bits.
    "tool_id": "(ifnull(source, 0) << 31) | ifnull(tool, 0)",
    "principal": "principal",
    "model": "model",
    "status": "status",
}

_OWNERS: Final = (
    "SELECT owner, count(*), max(created_at) FROM sessions INDEXED BY sessions_by_owner"
    " WHERE owner IS NOT NULL GROUP BY owner"
)
_CALLERS: Final = (
    "SELECT n.name, count(*), max(c.at) FROM calls c INDEXED BY calls_by_principal"
    " JOIN names n ON n.id = c.principal WHERE c.principal IS NOT NULL"
    f" AND c.kind = {KINDS.index('tool')} GROUP BY c.principal"
)


@dataclass(frozen=True, slots=True)
class Branch:
    """One statement of a query: the index that it reads, and its conditions."""

    index: str
    conditions: tuple[str, ...]
    parameters: tuple[object, ...]


class CallIndexReader:
    """Answers queries about calls."""

    def __init__(self, file: SqliteFile, vault: Vault) -> None:
        self._file = file
        self._vault = vault

    def page(self, query: CallQuery, cursor: str | None, limit: int) -> StorePage[CallRow]:
        """The page after a cursor."""
        place = None if cursor is None else place_of(cursor)
        with self._connection() as connection:
            statements = page_statements(connection, query, place, limit + 1)
            raw = [
                row
                for statement, parameters in statements
                for row in connection.execute(statement, parameters).fetchall()
            ]
            raw.sort(key=lambda row: (row[5], row[0]), reverse=not query.oldest_first)
            raw = raw[: limit + 1]
            names = names_of(connection, raw)
            rows = [((row[5], row[0]), row_of(row, names)) for row in raw]
            running = self._running(connection, query)
        if not running:
            end = cursor_at(rows[limit - 1][0]) if len(rows) > limit else None
            return StorePage(tuple(row for _, row in rows[:limit]), end)
        return page_of([*rows, *running], query, cursor, limit)

    def stray(self) -> int:
        """How many rows are of no record of their session: nothing but a change in the file makes
        one.
        """
        with self._connection() as connection:
            return connection.execute(_STRAY).fetchone()[0]

    def sums(self, query: CallQuery, key: SumKey) -> list[UsageSum]:
        """The sums of the calls that a query asks for."""
        with self._connection() as connection:
            conditions, parameters = _conditions(connection, query, is_sum=True)
            if (kind := kind_summed(key)) is not None:
                conditions = (*conditions, f"kind = {KINDS.index(kind)}")
            where = " AND ".join(("1", *conditions))
            totals = connection.execute(_totals(key, where), parameters).fetchall()
            durations = _durations(connection, key, where, parameters)
            names: dict[int, str] = dict(
                connection.execute("SELECT id, name FROM names").fetchall()
            )
        sums = [
            _sum(row, _key_name(key, row[0], names), durations.get(row[0], ()), names)
            for row in totals
        ]
        return sorted(sums, key=lambda each: each.key or "")

    def principals(self) -> list[PrincipalUse]:
        """What every principal has left, counted in the indexes."""
        with self._connection() as connection:
            sessions = connection.execute(_OWNERS).fetchall()
            return uses_of(sessions, connection.execute(_CALLERS).fetchall())

    def _running(
        self, connection: sqlite3.Connection, query: CallQuery
    ) -> list[tuple[Place, CallRow]]:
        """Calls that run and were not asked about, which lie in the table of open calls only."""
        if query.statuses and "running" not in query.statuses:
            return []
        if query.kind == "model" or query.min_cost is not None:
            return []
        rows: list[tuple[Place, CallRow]] = []
        for opened, session_id, owner, fact, vault in connection.execute(_RUNNING).fetchall():
            try:
                call = decode_open_call(fact if vault is None else self._vault.read(vault))
            except FileNotFoundError:
                # It has ended since the row was read.
                continue
            row = CallRow(
                session_id=session_id,
                seq=0,
                last_seq=0,
                kind="tool",
                at=call.created_at,
                status="running",
                call_id=call.call_id,
                owner=owner,
                principal=call.caller.principal,
                tool=call.tool.name,
                source=call.tool.source,
            )
            if query.matches(row):
                rows.append(((call.created_at, _RUNNING_FROM + opened), row))
        return rows

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        connection = self._file.connect(read_only=True)
        try:
            # One view of the file for all statements of a query.
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            raise self._file.explain(error) from error
        finally:
            connection.close()


def page_statements(
    connection: sqlite3.Connection, query: CallQuery, place: Place | None, limit: int
) -> list[tuple[str, tuple[object, ...]]]:
    """The statements whose rows, together and in order, begin with a page."""
    order, sign = ("ASC", ">") if query.oldest_first else ("DESC", "<")
    if place is None:
        place = (float("-inf"), -1) if query.oldest_first else (float("inf"), _LAST_ID)
    statements: list[tuple[str, tuple[object, ...]]] = []
    for branch in branches_of(connection, query):
        where = " AND ".join([*branch.conditions, f"(at, id) {sign} (?, ?)"])
        source = f"calls INDEXED BY {branch.index}"
        ids = f"SELECT id FROM {source} WHERE {where} ORDER BY at {order}, id {order} LIMIT ?"
        statement = f"SELECT {COLUMNS} FROM calls WHERE id IN ({ids})"
        statements.append((statement, (*branch.parameters, *place, limit)))
    return statements


def branches_of(connection: sqlite3.Connection, query: CallQuery) -> list[Branch]:
    """The statements of a query: one, or one for each status or tool that it asks for."""
    conditions, parameters = _conditions(connection, query)
    whole = Branch("calls_by_time", conditions, parameters)
    of_session = Branch("calls_by_session", conditions, parameters)
    if query.session_id is not None and _is_short(connection, query.session_id):
        return [of_session]
    if query.min_cost is not None:
        return [Branch("calls_by_cost", (*conditions, "nanos IS NOT NULL"), parameters)]
    if query.approver is not None:
        return [Branch("calls_by_approver", conditions, parameters)]
    if query.failure is not None or (query.statuses and "completed" not in query.statuses):
        return _status_branches(query.statuses or ("failed", "denied"), whole)
    if query.session_id is not None:
        return [of_session]
    if query.tool is not None:
        return _tool_branches(connection, query.tool, whole)
    for column, value in (
        ("model", query.model),
        ("principal", query.principal),
        ("owner", query.owner),
    ):
        if value is not None:
            return [Branch(f"calls_by_{column}", conditions, parameters)]
    return [whole]


def _is_short(connection: sqlite3.Connection, session_id: str) -> bool:
    """Whether a session has so few records that its calls are soon looked through."""
    row = connection.execute(
        "SELECT head_seq FROM sessions WHERE session_id = ?", (session_id,)
    ).fetchone()
    return row is None or row[0] <= _MOST_RECORDS


def _status_branches(statuses: Sequence[str], whole: Branch) -> list[Branch]:
    numbers = [number for number, status in enumerate(STATUSES) if status in statuses]
    # The index has no completed calls, and is used only for what says that it wants none.
    return [
        Branch(
            "calls_by_status",
            (*whole.conditions, f"status = {number}", "status <> 0"),
            whole.parameters,
        )
        for number in numbers
        if number
    ]


def _tool_branches(connection: sqlite3.Connection, pattern: str, whole: Branch) -> list[Branch]:
    numbers = _tools(connection, pattern)
    if len(numbers) > _MOST_BRANCHES:
        return [whole]
    return [
        Branch("calls_by_tool", (*whole.conditions, f"tool = {number}"), whole.parameters)
        for number in numbers
    ]


def _tools(connection: sqlite3.Connection, pattern: str) -> list[int]:
    rows = connection.execute("SELECT id, name FROM names WHERE kind = 'tool'").fetchall()
    return [number for number, name in rows if fnmatchcase(name, pattern)]


def _conditions(
    connection: sqlite3.Connection, query: CallQuery, *, is_sum: bool = False
) -> tuple[tuple[str, ...], tuple[object, ...]]:
    """The conditions of a query with their parameters; those of a sum are of tools and models."""
    wanted: list[tuple[str, object]] = []
    named = (
        ("session", "session", query.session_id),
        ("principal", "actor", query.principal),
        ("owner", "actor", query.owner),
        ("approver", "actor", query.approver),
        ("source", "source", query.source),
        ("model", "model", query.model),
    )
    for column, kind, name in named:
        if name is not None:
            wanted.append((f"{column} = ?", _number(connection, kind, name)))
    chosen: tuple[tuple[str, Sequence[str], str | None], ...] = (
        ("kind", KINDS, None if is_sum else query.kind),
        ("failure", FAILURE_KINDS, query.failure),
        ("decision", DECISIONS, query.decision),
        ("decided_by", ACTORS, query.decided_by),
    )
    for column, choices, choice in chosen:
        if choice is not None:
            wanted.append((f"{column} = ?", choices.index(choice)))
    least_nanos = None if query.min_cost is None else round(query.min_cost * NANO)
    bounds = (("at >= ?", query.since), ("at < ?", query.until), ("nanos >= ?", least_nanos))
    wanted.extend((condition, bound) for condition, bound in bounds if bound is not None)
    conditions = [condition for condition, _ in wanted]
    if query.statuses:
        conditions.append(f"status IN ({status_numbers(query.statuses)})")
    if query.tool is not None:
        numbers = ", ".join(map(str, _tools(connection, query.tool)))
        conditions.append(f"tool IN ({numbers})")
    if is_sum:
        conditions.append(f"status <> {STATUSES.index('running')}")
    return tuple(conditions), tuple(value for _, value in wanted)


def _number(connection: sqlite3.Connection, kind: str, name: str) -> int:
    row = connection.execute(
        "SELECT id FROM names WHERE kind = ? AND name = ?", (kind, name)
    ).fetchone()
    return _NOBODY if row is None else row[0]


def _totals(key: SumKey, where: str) -> str:
    tool, model = KINDS.index("tool"), KINDS.index("model")
    # By tool, what counts is also what the tools asked models for; elsewhere that is in the
    # requests.
    billed = f"(kind = {model} OR (kind = {tool} AND input_tokens = 0 AND output_tokens IS NULL))"
    spender = f"kind = {tool}" if kind_summed(key) == "tool" else billed
    return (
        f"SELECT {_SUM_KEYS[key]} AS key, total(kind = {tool}),"
        f" total(kind = {tool} AND status IN ({status_numbers(sorted(FAILED_STATUSES))})),"
        f" total(waited), total(kind = {model}),"
        f" total(CASE WHEN {spender} THEN input_tokens END),"
        f" total(CASE WHEN {spender} THEN output_tokens END),"
        f" sum(CASE WHEN {spender} THEN nanos END),"
        f" total({billed} AND nanos IS NULL),"
        f" group_concat(DISTINCT CASE WHEN {spender} THEN prices END),"
        f" max(CASE WHEN kind = {tool} THEN at END)"
        f" FROM calls WHERE {where} GROUP BY key"
    )


def _durations(
    connection: sqlite3.Connection, key: SumKey, where: str, parameters: Sequence[object]
) -> dict[Any, list[float]]:
    """How long the calls of each key took that have ended, in order."""
    ended = f"kind = {KINDS.index('tool')} AND status NOT IN ({OPEN_NUMBERS})"
    statement = f"SELECT {_SUM_KEYS[key]}, duration FROM calls WHERE {where} AND {ended}"
    durations: defaultdict[Any, list[float]] = defaultdict(list)
    # Sorted here: SQLite takes several times as long for a million of them.
    for name, duration in connection.execute(statement, parameters):
        durations[name].append(duration)
    for each in durations.values():
        each.sort()
    return durations


def _key_name(key: SumKey, value: int | None, names: Mapping[int, str]) -> str | None:
    if value is None:
        return None
    match key:
        case "minute" | "hour" | "day":
            return span_name(value * SPANS[key], key)
        case "status":
            return STATUSES[value]
        case "tool_id":
            return f"{names.get(value >> 31, '')}/{names.get(value & _LOW_BITS, '')}"
        case "tool" | "principal" | "model":
            return names[value]


def _sum(
    row: Row, name: str | None, durations: Sequence[float], names: Mapping[int, str]
) -> UsageSum:
    _, calls, failures, waited, requests, tokens_in, tokens_out, nanos, unpriced, prices, last = row
    tables = {names[int(number)] for number in prices.split(",")} if prices else set[str]()
    return UsageSum(
        key=name,
        calls=int(calls),
        failures=int(failures),
        p50_seconds=percentile(durations, 50),
        p95_seconds=percentile(durations, 95),
        waited_seconds=waited,
        requests=int(requests),
        input_tokens=int(tokens_in),
        output_tokens=int(tokens_out),
        cost=None if nanos is None else nanos / NANO,
        unpriced=int(unpriced),
        prices=tuple(sorted(tables)),
        last_at=last,
    )
