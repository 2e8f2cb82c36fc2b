"""Questions about the calls of all sessions: the filters, the rows of an answer, and the sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final, Literal, get_args

from toolcrib.approval.decision import ActorKind
from toolcrib.errors import UsageError
from toolcrib.failures import FailureKind
from toolcrib.store.store import StorePage

RowKind = Literal["tool", "model"]
"""What was called: a tool, or a model (one request of a prompt)."""
RowStatus = Literal["completed", "failed", "denied", "waiting", "approved", "running", "in_doubt"]
RowDecision = Literal["allowed", "denied", "edited", "answered", "expired"]
SumKey = Literal["minute", "hour", "day", "tool", "tool_id", "principal", "model", "status"]
"""Minutes, hours and days are those of UTC. `tool_id` is `source/name`: tools of one name from two
sources are two."""

ROW_STATUSES: Final[tuple[RowStatus, ...]] = get_args(RowStatus)
ROW_DECISIONS: Final[tuple[RowDecision, ...]] = get_args(RowDecision)
OPEN_STATUSES: Final[frozenset[RowStatus]] = frozenset(
    {"waiting", "approved", "running", "in_doubt"}
)
"""The statuses of calls that have not ended."""

NANO: Final = 1_000_000_000
"""Costs are counted in billionths of a dollar, so that sums are exact."""
SPANS: Final[dict[SumKey, int]] = {"minute": 60, "hour": 3_600, "day": 86_400}
"""How many seconds each key of time has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call as the index has it: facts of its records, no arguments and no results."""

    session_id: str
    seq: int
    """The number of its first record that the index knows; 0 while it only runs."""
    last_seq: int
    """The number of its newest record that the index knows."""
    kind: RowKind
    at: float
    """When it was asked for."""
    status: RowStatus
    call_id: str | None = None
    """None for requests to models."""
    owner: str | None = None
    """The owner of the session."""
    principal: str | None = None
    transport: str | None = None
    tool: str | None = None
    source: str | None = None
    model: str | None = None
    failure: FailureKind | None = None
    decision: RowDecision | None = None
    """None when nothing had to be decided, or nothing is decided yet."""
    decided_by: ActorKind | None = None
    approver: str | None = None
    """The name of who decided: a person, a rule, a grant."""
    duration_seconds: float = 0.0
    waited_seconds: float = 0.0
    parent_call_id: str | None = None
    turn: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """In US dollars: of a request to a model, of a call that a provider ran, or of the requests
    that a tool made within the call. None when it is not known."""
    prices: str | None = None
    """The table of prices that the cost was computed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQuery:
    """Which calls, in which order. A filter that is None lets everything pass."""

    since: float | None = None
    until: float | None = None
    kind: RowKind | None = "tool"
    principal: str | None = None
    owner: str | None = None
    """Calls of the sessions of this principal."""
    tool: str | None = None
    """A name, or a pattern with `*`, `?` and `[...]`."""
    source: str | None = None
    model: str | None = None
    statuses: tuple[RowStatus, ...] = ()
    """Any of these; empty lets everything pass."""
    failure: FailureKind | None = None
    decision: RowDecision | None = None
    decided_by: ActorKind | None = None
    approver: str | None = None
    session_id: str | None = None
    min_cost: float | None = None
    oldest_first: bool = False

    def matches(self, row: CallRow) -> bool:
        """Whether a call passes every filter."""
        wanted = (
            (self.kind, row.kind),
            (self.principal, row.principal),
            (self.owner, row.owner),
            (self.source, row.source),
            (self.model, row.model),
            (self.failure, row.failure),
            (self.decision, row.decision),
            (self.decided_by, row.decided_by),
            (self.approver, row.approver),
            (self.session_id, row.session_id),
        )
        return (
            all(value in (None, actual) for value, actual in wanted)
            and (not self.statuses or row.status in self.statuses)
            and (self.since is None or row.at >= self.since)
            and (self.until is None or row.at < self.until)
            and (self.tool is None or fnmatchcase(row.tool or "", self.tool))
            and (self.min_cost is None or (row.cost is not None and row.cost >= self.min_cost))
        )


@dataclass(frozen=True, slots=True)
class PrincipalUse:
    """What a principal has left in the store."""

    name: str
    sessions: int = 0
    calls: int = 0
    """Calls of tools that it has asked for, in its own sessions and in others."""
    last_at: float | None = None
    """When it made its last session, or asked for its last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """What the calls of one time, tool, principal, model or status took together."""

    key: str | None
    """The minute, hour or day (UTC), or the name; None for calls that have none."""
    calls: int = 0
    """Calls of tools."""
    failures: int = 0
    """Those of them that failed, were denied, or are in doubt."""
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    """Of the calls that have ended; None when there are none. A waiting time is not in them."""
    waited_seconds: float = 0.0
    requests: int = 0
    """Requests to models."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """In US dollars, of what has a price; None when nothing has one."""
    unpriced: int = 0
    """Requests to models and provider-run calls whose price is not known: the cost is higher by
    theirs."""
    prices: tuple[str, ...] = ()
    """The tables of prices that the cost was computed with."""
    last_at: float | None = None
    """When the newest call of a tool was asked for; None when there is none."""


FAILED_STATUSES: Final = frozenset[RowStatus]({"failed", "denied", "in_doubt"})


def sum_calls(rows: Iterable[CallRow], key: SumKey) -> list[UsageSum]:
    """The sums of calls by one key, in the order of the keys that there are."""
    groups: dict[str | None, list[CallRow]] = {}
    for row in rows:
        if kind_summed(key) in (None, row.kind):
            groups.setdefault(_key_of(row, key), []).append(row)
    return [_sum_of(name, groups[name], key) for name in sorted(groups, key=lambda n: n or "")]


def kind_summed(key: SumKey) -> RowKind | None:
    """The one kind of calls that sums by this key are of; None for both."""
    match key:
        case "tool" | "tool_id":
            return "tool"
        case "model":
            return "model"
        case "minute" | "hour" | "day" | "principal" | "status":
            return None


def _key_of(row: CallRow, key: SumKey) -> str | None:
    match key:
        case "minute" | "hour" | "day":
            return span_name(row.at, key)
        case "status":
            return row.status
        case "tool":
            return row.tool
        case "tool_id":
            return f"{row.source or ''}/{row.tool or ''}"
        case "principal":
            return row.principal
        case "model":
            return row.model


def span_name(at: float, key: SumKey) -> str:
    """The minute, hour or day of a time, in UTC: `2026-11-17T08:05Z`, or `2026-11-17`."""
    span = SPANS[key]
    start = datetime.fromtimestamp(at // span * span, UTC)
    return start.date().isoformat() if key == "day" else start.strftime("%Y-%m-%dT%H:%MZ")


def _sum_of(name: str | None, rows: Sequence[CallRow], key: SumKey) -> UsageSum:
    tools = [row for row in rows if row.kind == "tool"]
    requests = [row for row in rows if row.kind == "model"]
    # By tool, what counts is also what the tools asked models for; elsewhere that is in the
    # requests.
    hosted = [row for row in tools if is_hosted(row)]
    spenders = tools if kind_summed(key) == "tool" else [*requests, *hosted]
    durations = sorted(row.duration_seconds for row in tools if row.status not in OPEN_STATUSES)
    costs = [round(row.cost * NANO) for row in spenders if row.cost is not None]
    return UsageSum(
        key=name,
        calls=len(tools),
        failures=sum(row.status in FAILED_STATUSES for row in tools),
        p50_seconds=percentile(durations, 50),
        p95_seconds=percentile(durations, 95),
        waited_seconds=sum(row.waited_seconds for row in tools),
        requests=len(requests),
        input_tokens=sum(row.input_tokens or 0 for row in spenders),
        output_tokens=sum(row.output_tokens or 0 for row in spenders),
        cost=sum(costs) / NANO if costs else None,
        unpriced=sum(row.cost is None for row in [*requests, *hosted]),
        prices=tuple(sorted({row.prices for row in spenders if row.prices is not None})),
        last_at=max((row.at for row in tools), default=None),
    )


def is_hosted(row: CallRow) -> bool:
    """Whether a provider ran the call, so that its cost is its own and not of requests within."""
    return row.kind == "tool" and row.input_tokens == 0 and row.output_tokens is None


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """The smallest value that this part of all values does not exceed."""
    return ordered[-(-percent * len(ordered) // 100) - 1] if ordered else None


Place = tuple[float, int]
"""Where a row stands in the order of all rows: its time, then its number."""


def place_of(cursor: str) -> Place:
    """Read a cursor. Raises `UsageError`."""
    at, _, number = cursor.partition(" ")
    try:
        return float(at), int(number)
    except ValueError:
        raise UsageError("unknown cursor; list again without one") from None


def cursor_at(place: Place) -> str:
    """The cursor that asks for what follows a place."""
    return f"{place[0]!r} {place[1]}"


def counted(pairs: Iterable[tuple[str | None, float]]) -> list[tuple[str, int, float]]:
    """How many times each name comes, and the last time."""
    counts: dict[str, tuple[int, float]] = {}
    for name, at in pairs:
        if name is not None:
            count, last = counts.get(name, (0, at))
            counts[name] = (count + 1, max(last, at))
    return [(name, count, last) for name, (count, last) in counts.items()]


def uses_of(
    sessions: Iterable[tuple[str, int, float]], calls: Iterable[tuple[str, int, float]]
) -> list[PrincipalUse]:
    """The uses of principals, from the numbers and last times of their sessions and calls."""
    uses = {name: PrincipalUse(name, count, 0, at) for name, count, at in sessions}
    for name, count, at in calls:
        earlier = uses.get(name, PrincipalUse(name))
        last = at if earlier.last_at is None else max(at, earlier.last_at)
        uses[name] = PrincipalUse(name, earlier.sessions, count, last)
    return sorted(uses.values(), key=lambda use: use.name)


def page_of(
    rows: Iterable[tuple[Place, CallRow]], query: CallQuery, cursor: str | None, limit: int
) -> StorePage[CallRow]:
    """The page of a query after a cursor, of rows in any order."""
    is_after = _is_after(query, cursor)
    wanted = [each for each in rows if is_after(each[0]) and query.matches(each[1])]
    wanted.sort(key=lambda each: each[0], reverse=not query.oldest_first)
    page = wanted[:limit]
    end = cursor_at(page[-1][0]) if len(wanted) > limit else None
    return StorePage(tuple(row for _, row in page), end)


def _is_after(query: CallQuery, cursor: str | None) -> Callable[[Place], bool]:
    if cursor is None:
        return lambda _: True
    last = place_of(cursor)
    return (lambda place: place > last) if query.oldest_first else (lambda place: place < last)
