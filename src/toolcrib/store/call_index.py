"""From records to rows of the index of calls: what each record says about its call.

The ledger is the truth. A row is a function of the records of its call, so that the index can be
made again, and checked, from the ledger alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, cast, get_args

from toolcrib.approval.decision import ActorKind
from toolcrib.failures import FAILURE_KINDS
from toolcrib.ledger.encoding import read_payload
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDeferred,
    CallInDoubt,
    CallStarted,
    ToolInvoked,
)
from toolcrib.ledger.prompt_events import ModelResponded, PromptResumed, PromptStarted
from toolcrib.ledger.record import Record
from toolcrib.prices.table import MOST_TOKENS, UNKNOWN_PRICES, Prices, request_part
from toolcrib.store.call_query import (
    NANO,
    OPEN_STATUSES,
    CallRow,
    RowDecision,
    RowStatus,
    is_hosted,
)
from toolcrib.store.session_query import SessionCount

PROMPT_KINDS: Final = frozenset({PromptStarted.kind, PromptResumed.kind})
ROW_KINDS: Final = frozenset(
    {
        ApprovalRequested.kind,
        ApprovalDecided.kind,
        CallStarted.kind,
        CallDeferred.kind,
        CallInDoubt.kind,
        ToolInvoked.kind,
        ModelResponded.kind,
    }
)
"""The kinds of records that begin a row or change one."""

INDEXED_KINDS: Final = ROW_KINDS | PROMPT_KINDS
"""The kinds of records that the index is made of."""

_LONGEST_NAME: Final = 256
_MOST_TOKENS: Final = MOST_TOKENS
"""The largest count of a request that is kept: a database adds up no whole number of any size."""
_MOST_NANOS: Final = 10**15
_ACTOR_KINDS: Final = frozenset(get_args(ActorKind))
_DECISIONS: Final[dict[str, RowDecision]] = {
    "approve": "allowed",
    "deny": "denied",
    "answer": "answered",
    "expire": "expired",
}
_DENIALS: Final = frozenset({"denied", "not_permitted"})


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What the index keeps of a prompt, for the requests to models that follow."""

    principal: str | None
    transport: str | None
    provider: str
    model: str
    parent_call_id: str | None


@dataclass(frozen=True, slots=True)
class Spent:
    """What requests to models took together; the cost in billionths of a dollar."""

    input_tokens: int = 0
    output_tokens: int = 0
    nanos: int | None = None
    prices: str | None = None


def prompt_facts(record: Record) -> PromptFacts:
    """The prompt that a record starts or resumes."""
    facts = read_payload(record.payload or b"{}")
    return PromptFacts(
        _name(facts.get("principal")),
        _name(facts.get("transport")),
        str(facts.get("adapter")),
        _name(facts.get("model")) or "",
        facts.get("parent_call_id"),
    )


def begun_row(record: Record, owner: str | None, **changes: Any) -> CallRow:
    """A new row for the call of a record."""
    return replace(
        CallRow(
            session_id=record.session_id,
            seq=record.seq,
            last_seq=record.seq,
            kind="tool",
            at=record.at,
            status="running",
            call_id=record.call_id,
            owner=owner,
        ),
        **changes,
    )


def changed_row(row: CallRow | None, record: Record, owner: str | None) -> CallRow | None:
    """The row of a call after one more of its records; None when that record begins no row.

    `row` is the row of the call while the call is open. For a record of `CallInDoubt` that is the
    row that its start began.
    """
    facts = read_payload(record.payload or b"{}")
    match record.kind:
        case ApprovalRequested.kind:
            return _asked(row, record, facts, owner)
        case ApprovalDecided.kind:
            return None if row is None else _decided(row, record, facts)
        case CallStarted.kind:
            row = row or _started(record, facts, owner)
            return replace(row, status="running", last_seq=record.seq)
        case CallDeferred.kind:
            row = row or _started(record, facts, owner)
            return replace(row, status="waiting", last_seq=record.seq)
        case CallInDoubt.kind:
            row = row or _started(record, facts, owner)
            return replace(row, status="in_doubt", last_seq=record.seq)
        case ToolInvoked.kind:
            return _ended(row, record, facts, owner)
        case _:
            return row


def _started(record: Record, facts: dict[str, Any], owner: str | None) -> CallRow:
    principal = _name(facts.get("principal"))
    return begun_row(record, owner, principal=principal, **_tool(facts.get("tool")))


def _asked(
    row: CallRow | None, record: Record, facts: dict[str, Any], owner: str | None
) -> CallRow:
    request: dict[str, Any] = facts.get("request") or {}
    caller: dict[str, Any] = request.get("caller") or {}
    about: dict[str, Any] = {
        "principal": _name(caller.get("principal")),
        "transport": _name(caller.get("transport")),
        "parent_call_id": request.get("parent_call_id"),
        "turn": request.get("turn") or 0,
        # An earlier decision was about what the call was before it had to be asked about again.
        "decision": None,
        "decided_by": None,
        "approver": None,
        **_tool(request.get("tool")),
    }
    row = row or begun_row(record, owner)
    return replace(row, status="waiting", last_seq=record.seq, **about)


def _decided(row: CallRow, record: Record, facts: dict[str, Any]) -> CallRow:
    decided: dict[str, Any] = facts.get("decided") or {}
    decision: dict[str, Any] = decided.get("decision") or {}
    outcome = _DECISIONS.get(decision.get("kind", ""))
    if outcome == "allowed" and decision.get("arguments") is not None:
        outcome = "edited"
    return replace(
        row,
        status="approved",
        last_seq=record.seq,
        decision=outcome,
        **_actor(decided.get("actor")),
    )


def _ended(
    row: CallRow | None, record: Record, facts: dict[str, Any], owner: str | None
) -> CallRow:
    duration = float(facts.get("duration_seconds") or 0.0)
    failure: str | None = facts["failure"].get("kind") if facts.get("failure") else None
    ended: dict[str, Any] = {
        "status": _end_status(facts, failure),
        "failure": failure if failure in FAILURE_KINDS else None,
        "duration_seconds": duration,
        "waited_seconds": float(facts.get("waited_seconds") or 0.0),
        "principal": _name(facts.get("principal")),
        "transport": _name(facts.get("transport")),
        "parent_call_id": facts.get("parent_call_id"),
        "turn": facts.get("turn") or 0,
        "last_seq": record.seq,
        **_tool(facts.get("tool")),
    }
    ended["tool"] = _name(facts.get("name")) or ended.get("tool")
    if facts.get("origin") == "provider":
        # Its tokens are those of the request; that it has none of its own marks the row.
        ended |= {"input_tokens": 0, **_recorded_cost(facts.get("cost"))}
    if facts.get("decided_by") is not None:
        ended |= _actor(facts["decided_by"])
        ended["decision"] = _end_decision(row, facts, failure)
    if row is not None:
        return replace(row, **ended)
    # Built at once: most calls come here, and only here.
    return CallRow(
        session_id=record.session_id,
        seq=record.seq,
        kind="tool",
        at=record.at - duration,
        call_id=record.call_id,
        owner=owner,
        **ended,
    )


def _recorded_cost(cost: Any) -> dict[str, Any]:
    """The cost that a record has, and the table that it is from."""
    facts = cast("dict[str, Any]", cost) if isinstance(cost, dict) else {}
    parts: list[dict[str, Any]] = facts.get("parts") or []
    priced = [part for part in parts if isinstance(part.get("nanos"), int)]
    if not priced:
        return {}
    nanos = sum(min(part["nanos"], _MOST_NANOS) for part in priced)
    return {"cost": nanos / NANO, "prices": _name(priced[0].get("source"))}


def _end_status(facts: dict[str, Any], failure: str | None) -> RowStatus:
    if failure in _DENIALS:
        return "denied"
    return "completed" if facts.get("success") else "failed"


def _end_decision(row: CallRow | None, facts: dict[str, Any], failure: str | None) -> RowDecision:
    """What was decided, as far as the end of a call says it."""
    if failure in _DENIALS:
        return "denied"
    if failure == "expired":
        return "expired"
    if facts.get("was_edited"):
        return "edited"
    return "answered" if row is not None and row.decision == "answered" else "allowed"


def model_row(
    record: Record,
    prompt: PromptFacts | None,
    owner: str | None,
    prices: Prices,
    *,
    is_repriced: bool = False,
) -> CallRow:
    """The row of one request to a model, with the cost that the record has, else by `prices`."""
    facts = read_payload(record.payload or b"{}")
    usage: dict[str, int] = facts.get("usage") or {}
    model = _name(facts.get("model")) or (prompt.model if prompt else "")
    provider = prompt.provider if prompt else ""
    cost = {} if is_repriced else _recorded_cost(facts.get("cost"))
    if not cost:
        part = request_part(prices, provider, model, usage, record.at)
        cost = {} if part is None else {"cost": part.dollars, "prices": part.source}
    return begun_row(
        record,
        owner,
        kind="model",
        status="failed" if facts.get("status") in ("failed", "refused") else "completed",
        call_id=None,
        principal=prompt.principal if prompt else None,
        transport=prompt.transport if prompt else None,
        source=provider or None,
        model=model or None,
        parent_call_id=prompt.parent_call_id if prompt else None,
        turn=facts.get("turn") or 0,
        input_tokens=_bounded(usage.get("input_tokens", 0)),
        output_tokens=_bounded(usage.get("output_tokens", 0)),
        **cost,
    )


def _bounded(count: int) -> int:
    return max(-_MOST_TOKENS, min(int(count), _MOST_TOKENS))


def with_spent(row: CallRow, spent: Spent) -> CallRow:
    """The row of a call with what the requests to models within it took."""
    return replace(
        row,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost=None if spent.nanos is None else spent.nanos / NANO,
        prices=spent.prices,
    )


class CallFold:
    """The rows of one session, record by record."""

    def __init__(self, owner: str | None, prices: Prices = UNKNOWN_PRICES) -> None:
        self.rows: list[CallRow] = []
        self.last_seq = 0
        self.count = SessionCount()
        """What the rows and the prompts are together."""
        self._owner = owner
        self._prices = prices
        self._open: dict[str, int] = {}
        self._prompts: dict[int, PromptFacts] = {}
        self._spent: dict[str, Spent] = {}

    def take_all(self, records: Iterable[Record]) -> None:
        """Take more records, in order."""
        for record in records:
            self.take(record)

    def take(self, record: Record) -> None:
        """Take the next record. One whose payload was deleted says nothing about its call."""
        self.last_seq = record.seq
        if record.payload is None:
            return
        if record.kind in PROMPT_KINDS:
            prompt = prompt_facts(record)
            facts = read_payload(record.payload)
            turn = facts.get("turn") or 0
            self.count.take_prompt(record, facts)
            self._prompts[turn] = resumed(self._prompts.get(turn), prompt)
        elif record.kind == ModelResponded.kind:
            turn = read_payload(record.payload).get("turn") or 0
            row = model_row(record, self._prompts.get(turn), self._owner, self._prices)
            self.rows.append(row)
            self.count.take_row(None, row)
            self._count(row)
        elif record.kind in ROW_KINDS and record.call_id is not None:
            self._change(record.call_id, record)

    def drop(self, up_to: int, later: Iterable[Record]) -> None:
        """Forget ended calls up to a record, whose payloads were deleted. `later` are the records
        after it.
        """
        kept = [row for row in self.rows if row.seq > up_to or row.status in OPEN_STATUSES]
        self.rows = kept
        self._open = {
            row.call_id: index
            for index, row in enumerate(kept)
            if row.call_id is not None and row.status in OPEN_STATUSES
        }
        self.count = SessionCount()
        for row in sorted(kept, key=lambda row: row.seq):
            if not is_bare(row):
                self.count.take_row(None, row)
        for record in later:
            if record.kind == PromptStarted.kind and record.payload is not None:
                self.count.take_prompt(record, read_payload(record.payload))

    def _change(self, call_id: str, record: Record) -> None:
        index = self._open.get(call_id)
        current = None if index is None else self.rows[index]
        # A start alone is no row yet: what ends it says all that it said.
        if current is not None and is_bare(current) and record.kind != CallInDoubt.kind:
            current = None
        row = changed_row(current, record, self._owner)
        if row is None:
            return
        has_ended = row.status not in OPEN_STATUSES
        if has_ended and call_id in self._spent and not is_hosted(row):
            row = with_spent(row, self._spent.pop(call_id))
        if not is_bare(row):
            before = None if current is None or is_bare(current) else current
            self.count.take_row(before, row)
        if index is None:
            if not has_ended:
                self._open[call_id] = len(self.rows)
            self.rows.append(row)
        else:
            self.rows[index] = row
            if has_ended:
                del self._open[call_id]
        if has_ended:
            self._count(row)

    def _count(self, row: CallRow) -> None:
        """Add what a row spent to the call that it is part of."""
        if row.parent_call_id is None or row.input_tokens is None:
            return
        spent = self._spent.get(row.parent_call_id, Spent())
        self._spent[row.parent_call_id] = add_spent(spent, row)


def is_bare(row: CallRow) -> bool:
    """Whether all that is known of a call is that it started: nobody was asked about it."""
    return row.status == "running" and row.seq == row.last_seq


def shown_row(row: CallRow) -> CallRow:
    """A row as queries answer it: the records of a call that only runs are not in the index."""
    return replace(row, seq=0, last_seq=0) if is_bare(row) else row


def add_spent(spent: Spent, row: CallRow) -> Spent:
    """What was spent with one more row."""
    nanos = spent.nanos if row.cost is None else (spent.nanos or 0) + round(row.cost * NANO)
    return Spent(
        spent.input_tokens + (row.input_tokens or 0),
        spent.output_tokens + (row.output_tokens or 0),
        nanos,
        spent.prices if row.prices is None else row.prices,
    )


def resumed(prompt: PromptFacts | None, later: PromptFacts) -> PromptFacts:
    """The prompt of a turn after one more record of it: whoever goes on with it asks from then."""
    if prompt is None:
        return later
    return replace(later, parent_call_id=later.parent_call_id or prompt.parent_call_id)


def _tool(reference: Any) -> dict[str, Any]:
    if not isinstance(reference, dict):
        return {}
    facts = cast("dict[str, Any]", reference)
    return {"tool": _name(facts.get("name")), "source": _name(facts.get("source"))}


def _actor(actor: Any) -> dict[str, Any]:
    facts: dict[str, Any] = actor or {}
    kind = facts.get("kind")
    return {
        "decided_by": kind if kind in _ACTOR_KINDS else None,
        "approver": _name(facts.get("name")),
    }


def _name(text: Any) -> str | None:
    # A database that keeps text as text has no place for the character 0.
    return None if text is None else str(text)[:_LONGEST_NAME].replace("\0", "")
