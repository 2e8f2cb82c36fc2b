"""Queries of the index of calls on PostgreSQL: pages by indexes in their order, and sums."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

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
    place_of,
    span_name,
    uses_of,
)
from toolcrib.store.codec import decode_open_call
from toolcrib.store.postgres.call_rows import AT_PLACE, ROW_FIELDS, call_row
from toolcrib.store.postgres.commit_group import open_call_place
from toolcrib.store.postgres.parameters import Parameters
from toolcrib.store.store import StorePage

if TYPE_CHECKING:
    from toolcrib.store.cipher import Cipher
    from toolcrib.store.postgres.database import DatabaseConnection

_MOST_BRANCHES: Final = 64
"""So many tools that a pattern matches are looked for one by one; more, in one run over all."""
_LAST_ID: Final = 2**63 - 1
_RUNNING_FROM: Final = 2**62
"""Numbers of calls that only run, which have none in the index."""
_NOBODY: Final = -1
"""The number of a session that is not there."""
# From one name to the next by the index: as many steps as there are names, not calls.
_TOOLS: Final = """
WITH RECURSIVE names AS (
    (SELECT tool FROM calls WHERE tool IS NOT NULL ORDER BY tool LIMIT 1)
    UNION ALL
    SELECT (SELECT c.tool FROM calls c WHERE c.tool IS NOT NULL AND c.tool > names.tool
        ORDER BY c.tool LIMIT 1) FROM names WHERE names.tool IS NOT NULL
)
SELECT tool FROM names WHERE tool IS NOT NULL
"""
_RUNNING: Final = f"""
SELECT o.opened, s.session_id, s.owner, o.call_id, o.fact, o.sealed
FROM open_calls o JOIN sessions s ON s.number = o.session
WHERE ($1::text IS NULL OR s.session_id = $1) AND ($2::text IS NULL OR s.owner = $2)
    AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.session = o.session AND c.call_id = o.call_id
        AND c.status IN ({OPEN_NUMBERS}))
"""
STRAY: Final = """
SELECT count(*) FROM calls c LEFT JOIN sessions s ON s.number = c.session
LEFT JOIN records r ON r.born = s.born AND r.session = c.session AND r.seq = c.seq
WHERE r.seq IS NULL
"""
_SUM_KEYS: Final[dict[SumKey, str]] = {
    **{key: f"floor(c.at / {span})::bigint" for key, span in SPANS.items()},
    "tool": "c.tool",
    "tool_id": "coalesce(c.source, '') || '/' || coalesce(c.tool, '')",
    "principal": "c.principal",
    "model": "c.model",
    "status": "c.status",
}
_OWNERS: Final = """
SELECT owner, count(*), max(created_at) FROM sessions WHERE owner IS NOT NULL GROUP BY owner
"""
_CALLERS: Final = f"""
SELECT principal, count(*), max(at) FROM calls
WHERE principal IS NOT NULL AND kind = {KINDS.index("tool")} GROUP BY principal
"""


async def call_page(
    connection: DatabaseConnection,
    cipher: Cipher,
    query: CallQuery,
    cursor: str | None,
    limit: int,
) -> StorePage[CallRow]:
    """The page after a cursor."""
    place = None if cursor is None else place_of(cursor)
    statement, put = await page_statement(connection, query, place, limit + 1)
    raw = await connection.fetch(statement, *put.values)
    rows = [((row[AT_PLACE], row[0]), call_row(tuple(row))) for row in raw]
    running = await _running(connection, cipher, query)
    if not running:
        end = cursor_at(rows[limit - 1][0]) if len(rows) > limit else None
        return StorePage(tuple(row for _, row in rows[:limit]), end)
    return page_of([*rows, *running], query, cursor, limit)


async def page_statement(
    connection: DatabaseConnection, query: CallQuery, place: Place | None, limit: int
) -> tuple[str, Parameters]:
    """The statement of a page: in one part, or in one for each status or tool."""
    put = Parameters()
    tools = None if query.tool is None else await tool_names(connection, query.tool)
    conditions = await _conditions(connection, query, tools, put)
    order, sign = ("ASC", ">") if query.oldest_first else ("DESC", "<")
    if place is None:
        place = (float("-inf"), -1) if query.oldest_first else (float("inf"), _LAST_ID)
    conditions.append(f"(c.at, c.id) {sign} ({put(place[0])}::double precision, {put(place[1])})")
    most = f"ORDER BY c.at {order}, c.id {order} LIMIT {put(limit)}"
    branches = " UNION ALL ".join(
        f"(SELECT c.* FROM calls c WHERE {' AND '.join([*branch, *conditions])} {most})"
        for branch in _branches(query, tools, put)
    )
    return (
        f"SELECT {ROW_FIELDS} FROM (SELECT * FROM ({branches}) c {most}) c"
        f" JOIN sessions s ON s.number = c.session ORDER BY c.at {order}, c.id {order}",
        put,
    )


def _branches(query: CallQuery, tools: list[str] | None, put: Parameters) -> list[list[str]]:
    """The conditions of each part of a page."""
    if query.session_id is not None or query.approver is not None:
        return [[]]
    if query.min_cost is not None:
        return [["c.nanos IS NOT NULL"]]
    if query.failure is not None or (query.statuses and "completed" not in query.statuses):
        # The index has no completed calls, and is used only for what says that it wants none.
        wanted = query.statuses or ("failed", "denied")
        return [[f"c.status = {STATUSES.index(status)}"] for status in STATUSES if status in wanted]
    if tools and len(tools) <= _MOST_BRANCHES:
        return [[f"c.tool = {put(tool)}"] for tool in tools]
    return [[]]


async def tool_names(connection: DatabaseConnection, pattern: str) -> list[str]:
    """The names of tools of the index that a pattern matches."""
    rows = await connection.fetch(_TOOLS)
    return [row[0] for row in rows if fnmatchcase(row[0], pattern)]


async def _conditions(
    connection: DatabaseConnection,
    query: CallQuery,
    tools: list[str] | None,
    put: Parameters,
    *,
    is_sum: bool = False,
) -> list[str]:
    """The conditions of a query; those of a sum are of tools and models."""
    conditions: list[str] = []
    if query.session_id is not None:
        number = await connection.fetchval(
            "SELECT number FROM sessions WHERE session_id = $1", _text(query.session_id)
        )
        conditions.append(f"c.session = {put(_NOBODY if number is None else number)}")
    named = (
        ("principal", query.principal),
        ("owner", query.owner),
        ("approver", query.approver),
        ("source", query.source),
        ("model", query.model),
    )
    conditions += [f"c.{column} = {put(_text(name))}" for column, name in named if name is not None]
    chosen: tuple[tuple[str, Sequence[str], str | None], ...] = (
        ("kind", KINDS, None if is_sum else query.kind),
        ("failure", FAILURE_KINDS, query.failure),
        ("decision", DECISIONS, query.decision),
        ("decided_by", ACTORS, query.decided_by),
    )
    conditions += [
        f"c.{column} = {choices.index(choice)}"
        for column, choices, choice in chosen
        if choice is not None
    ]
    nanos = None if query.min_cost is None else round(query.min_cost * NANO)
    bounds = (("c.at >=", query.since), ("c.at <", query.until), ("c.nanos >=", nanos))
    conditions += [f"{bound} {put(value)}" for bound, value in bounds if value is not None]
    if query.statuses:
        conditions.append(f"c.status IN ({status_numbers(query.statuses)})")
    if tools is not None:
        conditions.append(f"c.tool = ANY({put(tools)}::text[])")
    if is_sum:
        conditions.append(f"c.status <> {STATUSES.index('running')}")
    return conditions


def _text(name: str) -> str:
    # Neither is in any name of the index.
    return name.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


async def _running(
    connection: DatabaseConnection, cipher: Cipher, query: CallQuery
) -> list[tuple[Place, CallRow]]:
    """Calls that run and were not asked about, which lie in the table of open calls only."""
    if query.statuses and "running" not in query.statuses:
        return []
    if query.kind == "model" or query.min_cost is not None:
        return []
    wanted = (query.session_id, query.owner)
    found = await connection.fetch(
        _RUNNING, *(None if name is None else _text(name) for name in wanted)
    )
    rows: list[tuple[Place, CallRow]] = []
    for opened, session_id, owner, call_id, fact, sealed in found:
        place = open_call_place(session_id, call_id)
        call = decode_open_call(fact if sealed is None else cipher.open(sealed, place))
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


async def call_sums(
    connection: DatabaseConnection, query: CallQuery, key: SumKey
) -> list[UsageSum]:
    """The sums of the calls that a query asks for."""
    put = Parameters()
    tools = None if query.tool is None else await tool_names(connection, query.tool)
    conditions = await _conditions(connection, query, tools, put, is_sum=True)
    if (kind := kind_summed(key)) is not None:
        conditions.append(f"c.kind = {KINDS.index(kind)}")
    rows = await connection.fetch(_totals(key, " AND ".join(conditions)), *put.values)
    return sorted((_sum(tuple(row), key) for row in rows), key=lambda each: each.key or "")


def _totals(key: SumKey, where: str) -> str:
    tool, model = KINDS.index("tool"), KINDS.index("model")
    # By tool, what counts is also what the tools asked models for; elsewhere that is in the
    # requests.
    hosted = f"(c.kind = {tool} AND c.input_tokens = 0 AND c.output_tokens IS NULL)"
    billed = f"(c.kind = {model} OR {hosted})"
    spender = f"c.kind = {tool}" if kind_summed(key) == "tool" else billed
    ended = f"c.kind = {tool} AND c.status NOT IN ({OPEN_NUMBERS})"
    failed = status_numbers(sorted(FAILED_STATUSES))
    return f"""
    SELECT {_SUM_KEYS[key]} AS key, count(*) FILTER (WHERE c.kind = {tool}),
        count(*) FILTER (WHERE c.kind = {tool} AND c.status IN ({failed})),
        percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY c.duration)
            FILTER (WHERE {ended}),
        coalesce(sum(c.waited), 0), count(*) FILTER (WHERE c.kind = {model}),
        coalesce(sum(c.input_tokens) FILTER (WHERE {spender}), 0)::bigint,
        coalesce(sum(c.output_tokens) FILTER (WHERE {spender}), 0)::bigint,
        (sum(c.nanos) FILTER (WHERE {spender}))::bigint,
        count(*) FILTER (WHERE {billed} AND c.nanos IS NULL),
        array_agg(DISTINCT c.prices) FILTER (WHERE {spender} AND c.prices IS NOT NULL),
        max(c.at) FILTER (WHERE c.kind = {tool})
    FROM calls c WHERE {where} GROUP BY 1
    """


def _sum(row: Sequence[Any], key: SumKey) -> UsageSum:
    value, calls, failures, percentiles, waited, requests, tokens_in, tokens_out = row[:8]
    nanos, unpriced, prices, last = row[8:]
    p50, p95 = percentiles or (None, None)
    return UsageSum(
        key=_key_name(key, value),
        calls=calls,
        failures=failures,
        p50_seconds=p50,
        p95_seconds=p95,
        waited_seconds=waited,
        requests=requests,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost=None if nanos is None else nanos / NANO,
        unpriced=unpriced,
        prices=tuple(sorted(prices or ())),
        last_at=last,
    )


def _key_name(key: SumKey, value: Any) -> str | None:
    if value is None:
        return None
    match key:
        case "minute" | "hour" | "day":
            return span_name(value * SPANS[key], key)
        case "status":
            return STATUSES[int(value)]
        case "tool" | "tool_id" | "principal" | "model":
            return str(value)


async def principal_uses(connection: DatabaseConnection) -> list[PrincipalUse]:
    """What every principal has left."""
    sessions = [_use(tuple(row)) for row in await connection.fetch(_OWNERS)]
    return uses_of(sessions, [_use(tuple(row)) for row in await connection.fetch(_CALLERS)])


def _use(row: Sequence[Any]) -> tuple[str, int, float]:
    return row[0], row[1], row[2]
