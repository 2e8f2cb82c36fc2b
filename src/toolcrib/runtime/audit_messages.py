"""The parameters and results of operations about the record: calls of all sessions, and sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from annotated_types import Ge, Le
from pydantic import Field

from toolcrib.approval.decision import ActorKind
from toolcrib.failures import FailureKind
from toolcrib.runtime.messages import OperationParams, Seq, Time
from toolcrib.store.call_query import CallRow, RowDecision, RowKind, SumKey, UsageSum

MAX_CALLS: Final = 1_000
"""How many calls one result may hold."""

MAX_RECORDS: Final = 1_000
"""How many records one result may hold."""

Kind: TypeAlias = RowKind | Literal["any"]
Filter: TypeAlias = Annotated[str, Field(min_length=1, max_length=512)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCalls(OperationParams):
    """A page of the calls that the principal may see; each parameter lets fewer pass."""

    since: Time | None = None
    until: Time | None = None
    kind: Kind = "tool"
    """Calls of tools, requests to models, or both."""
    principal: Filter | None = None
    owner: Filter | None = None
    """Calls in the sessions of this principal."""
    tool: Filter | None = None
    """A name, or a pattern with `*`, `?` and `[...]`."""
    source: Filter | None = None
    model: Filter | None = None
    status: Filter | None = None
    """One status, or several with commas between them."""
    failure: FailureKind | None = None
    decision: RowDecision | None = None
    decided_by: ActorKind | None = None
    approver: Filter | None = None
    session_id: Filter | None = None
    min_cost: Annotated[float, Ge(0)] | None = None
    """In US dollars."""
    oldest_first: bool = False
    cursor: Annotated[str, Field(max_length=255)] | None = None
    limit: Annotated[int, Ge(1), Le(MAX_CALLS)] = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Calls, newest first unless asked for otherwise; `cursor` asks for the next page, None is the
    end.
    """

    calls: list[CallRow]
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SumCalls(OperationParams):
    """The sums of the calls that the principal may see, by minute, hour or day (UTC), tool,
    principal, model or status. The filters are those of `calls.list`.
    """

    by: SumKey = "day"
    since: Time | None = None
    until: Time | None = None
    principal: Filter | None = None
    owner: Filter | None = None
    tool: Filter | None = None
    source: Filter | None = None
    model: Filter | None = None
    status: Filter | None = None
    failure: FailureKind | None = None
    decision: RowDecision | None = None
    decided_by: ActorKind | None = None
    approver: Filter | None = None
    session_id: Filter | None = None
    min_cost: Annotated[float, Ge(0)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The sums, in the order of their keys. What runs is not in them."""

    sums: list[UsageSum]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRecords(OperationParams):
    """A page of the records of a session after a sequence number, as they are stored."""

    session_id: str
    after: Seq = 0
    limit: Annotated[int, Ge(1), Le(MAX_RECORDS)] = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One record of a ledger: what its hash is of, and the hash. Nothing in it was checked."""

    session_id: str
    seq: int
    kind: str
    at: float
    call_id: str | None
    payload: str | None
    """The bytes that were stored, as text; None when they were deleted."""
    payload_encoding: Literal["utf-8", "base64"]
    """How `payload` writes the bytes: base64 for those that are no text, which is a fault."""
    payload_digest: str
    previous: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHead:
    """The end of a ledger as the store says it."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorFacts:
    """That heads of ledgers are sent elsewhere while the runtime runs, and what signs them."""

    key: str | None
    """The fingerprint of the key; None when anchors are not signed."""
    every_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records in order: fewer than `limit` when they are large. `last_seq` asks for the page after
    it; a page without records is the end. `head` was read before them.
    """

    records: list[StoredRecord]
    last_seq: int
    head: StoredHead | None = None
    anchors: AnchorFacts | None = None
    """None when the runtime sends no anchors."""
