"""Operations on the record: which calls a principal may see, and what they took together."""

from __future__ import annotations

import math
import time
from base64 import b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, cast

from toolcrib.approval.duration import read_duration
from toolcrib.errors import Refused, ToolcribError, UsageError
from toolcrib.runtime.audit_messages import (
    AnchorFacts,
    Calls,
    Records,
    StoredHead,
    StoredRecord,
    Sums,
)
from toolcrib.runtime.messages import Sessions
from toolcrib.store.call_query import ROW_STATUSES, CallQuery, RowStatus
from toolcrib.store.session_query import NO_COUNTS, SessionQuery, SessionSummary
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toolcrib.clock import Clock
    from toolcrib.ledger.record import Record
    from toolcrib.runtime.audit_messages import ListCalls, ListRecords, SumCalls
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.messages import ListSessions, SessionFacts, SessionState
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.store.anchors import AnchorOptions
    from toolcrib.store.store import SessionInfo, Store


async def list_calls(store: Store, params: ListCalls, who: Principal) -> Calls:
    """A page of calls: of one's own sessions, or for auditors of all."""
    owner = owner_seen(params.owner, who)
    if owner is _NOBODY:
        return Calls(calls=[])
    query = CallQuery(
        since=read_time(params.since, "since"),
        until=read_time(params.until, "until"),
        kind=None if params.kind == "any" else params.kind,
        principal=params.principal,
        owner=owner,
        tool=params.tool,
        source=params.source,
        model=params.model,
        statuses=_statuses(params.status),
        failure=params.failure,
        decision=params.decision,
        decided_by=params.decided_by,
        approver=params.approver,
        session_id=params.session_id,
        min_cost=params.min_cost,
        oldest_first=params.oldest_first,
    )

    def read() -> Calls:
        try:
            page = store.calls(query, cursor=params.cursor, limit=params.limit)
        except UsageError as error:
            raise Refused("invalid", str(error)) from None
        return Calls(calls=list(page.items), cursor=page.cursor)

    return await ask_store(store, read)


async def sum_calls(store: Store, params: SumCalls, who: Principal) -> Sums:
    """The sums of calls: of one's own sessions, or for auditors of all."""
    owner = owner_seen(params.owner, who)
    if owner is _NOBODY:
        return Sums(sums=[])
    query = CallQuery(
        since=read_time(params.since, "since"),
        until=read_time(params.until, "until"),
        principal=params.principal,
        owner=owner,
        tool=params.tool,
        source=params.source,
        model=params.model,
        statuses=_statuses(params.status),
        failure=params.failure,
        decision=params.decision,
        decided_by=params.decided_by,
        approver=params.approver,
        session_id=params.session_id,
        min_cost=params.min_cost,
    )
    sums = await ask_store(store, store.call_sums, query, params.by)
    return Sums(sums=sums)


async def list_sessions(
    store: Store,
    params: ListSessions,
    who: Principal,
    states_of: Callable[[Sequence[SessionInfo]], Mapping[str, SessionState]],
    facts_of: Callable[[SessionInfo, SessionSummary, SessionState], SessionFacts],
) -> Sessions:
    """A page of sessions: one's own, or for auditors all. A page of one state may take the store
    several.
    """
    owner = owner_seen(params.owner, who)
    query = SessionQuery(
        owner=owner,
        since=read_time(params.since, "since"),
        until=read_time(params.until, "until"),
        text=params.text,
        tool=params.tool,
        is_waiting=params.waiting,
        has_failures=params.failed,
        newest_first=params.newest_first,
    )
    if owner is _NOBODY:
        return Sessions(sessions=[])

    def read() -> Sessions:
        infos: list[SessionInfo] = []
        states: dict[str, SessionState] = {}
        cursor = params.cursor
        while True:
            try:
                page = store.sessions(query, cursor=cursor, limit=params.limit - len(infos))
            except (ValueError, OverflowError):
                raise Refused("invalid", "unknown cursor; list again without one") from None
            states |= states_of(page.items)
            infos += [
                each for each in page.items if params.state in (None, states[each.session_id])
            ]
            cursor = page.cursor
            if cursor is None or len(infos) == params.limit:
                break
        summaries = store.summaries([info.session_id for info in infos])
        sessions = [
            facts_of(each, summaries.get(each.session_id, NO_COUNTS), states[each.session_id])
            for each in infos
        ]
        return Sessions(sessions=sessions, cursor=cursor)

    return await ask_store(store, read)


async def list_records(
    store: Store,
    sessions: LiveSessions,
    params: ListRecords,
    who: Principal,
    config: RuntimeConfig,
) -> Records:
    """A page of the records of a session as they are stored, with what a reader needs to check
    their chain.
    """
    await sessions.seen(params.session_id, who)

    live = sessions.find(params.session_id)

    def read() -> Records:
        # A live session writes out what it has not written yet.
        head = store.head(params.session_id) if live is None else live.session.head()
        records = _page(store, params, config.max_payload_bytes)
        return Records(
            records=[_stored(record) for record in records],
            last_seq=records[-1].seq if records else params.after,
            head=None if head is None else StoredHead(seq=head.seq, hash=head.hash),
            anchors=None if config.anchors is None else _anchor_facts(config.anchors),
        )

    return await ask_store(store, read)


def _anchor_facts(options: AnchorOptions) -> AnchorFacts:
    key = None if options.key is None else options.key.fingerprint
    return AnchorFacts(key=key, every_seconds=options.every_seconds)


def _page(store: Store, params: ListRecords, most_bytes: int) -> list[Record]:
    page: list[Record] = []
    for record in store.records(params.session_id, after=params.after, limit=params.limit):
        most_bytes -= len(record.payload or b"")
        if page and most_bytes < 0:
            break
        page.append(record)
    return page


def _stored(record: Record) -> StoredRecord:
    payload, encoding = _payload_text(record.payload)
    return StoredRecord(
        session_id=record.session_id,
        seq=record.seq,
        kind=record.kind,
        at=record.at,
        call_id=record.call_id,
        payload=payload,
        payload_encoding=encoding,
        payload_digest=record.payload_digest,
        previous=record.previous,
        hash=record.hash,
    )


def _payload_text(payload: bytes | None) -> tuple[str | None, Literal["utf-8", "base64"]]:
    if payload is None:
        return None, "utf-8"
    try:
        return payload.decode(), "utf-8"
    except UnicodeDecodeError:
        # Nothing writes such bytes but somebody who changes the store: they are shown all the same.
        return b64encode(payload).decode(), "base64"


_NOBODY = "\0"
"""The owner of no session."""


def owner_seen(owner: str | None, who: Principal) -> str | None:
    """Whose sessions to look in: for whoever sees only their own, those, or nobody's."""
    if who.sees_all:
        return owner
    return who.name if owner in (None, who.name) else _NOBODY


def sees_nothing(owner: str | None) -> bool:
    """Whether `owner_seen` found that there is nothing to look in."""
    return owner is _NOBODY


def read_time(written: float | str | None, name: str, clock: Clock = time.time) -> float | None:
    """Seconds since the epoch, from a number, a time in ISO 8601, or how long ago. Raises
    `Refused` (invalid).
    """
    if written is None:
        return None
    seconds = _seconds(written, clock)
    if seconds is None or not math.isfinite(seconds):
        raise Refused(
            "invalid",
            f"{name}: {str(written)[:64]!r} is no time; write how long ago (30m, 12h, 7d), a time "
            "like 2026-11-17 or 2026-11-17T08:30+01:00, or seconds since 1970",
        )
    return seconds


def _seconds(written: float | str, clock: Clock) -> float | None:
    try:
        return float(written)
    except ValueError:
        pass
    try:
        return clock() - read_duration(written)
    except ToolcribError:
        pass
    try:
        at = datetime.fromisoformat(str(written))
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _statuses(written: str | None) -> tuple[RowStatus, ...]:
    if written is None:
        return ()
    names = [name.strip() for name in written.split(",")]
    for name in names:
        if name not in ROW_STATUSES:
            raise Refused(
                "invalid",
                f"status: {name[:64]!r} is none; write {', '.join(ROW_STATUSES)}, or several with "
                "commas between them",
            )
    return tuple(cast("list[RowStatus]", names))
