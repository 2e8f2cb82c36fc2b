"""Retention: what is old is deleted, on record, and what waits is not.

A session is old when nothing has happened in it for long enough. Sessions that somebody has open,
and those with an open call or an approval that is not used, are left as they are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

from toolcrib.approval.decision import Actor
from toolcrib.approval.duration import read_duration
from toolcrib.errors import LeaseHeld, SessionNotFound, StoreError, ToolcribError, UsageError
from toolcrib.ledger.events import PayloadsDeleted
from toolcrib.ledger.record import end_of, seal
from toolcrib.store.store import Commit, SessionInfo, Store, every

_log = logging.getLogger("toolcrib.store")

Pruning = Literal["payloads", "sessions"]
"""What is deleted of an old session: its payloads, so that its chain still verifies, or all of it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long a store keeps what is over, and what it deletes then."""

    older_than: float
    """In seconds."""
    delete: Pruning = "payloads"
    every_seconds: float = 3600.0
    """How often a runtime looks."""

    def __post_init__(self) -> None:
        if self.older_than <= 0 or self.every_seconds <= 0:
            raise UsageError("retention: older_than and every_seconds must be more than 0")


RETENTION_KEYS: Final = ("older_than", "delete", "every")


def read_retention(facts: Mapping[str, Any]) -> Retention:
    """Retention as a project file has it: `{older_than: 90d, delete: payloads, every: 1h}`. Raises
    `UsageError` that names the key.
    """
    unknown = sorted(set(facts) - set(RETENTION_KEYS))
    if unknown:
        raise UsageError(
            f"retention: unknown key {unknown[0]!r}; it has {', '.join(RETENTION_KEYS)}"
        )
    if "older_than" not in facts:
        raise UsageError("retention: `older_than` is missing; write for example 90d")
    delete: Any = facts.get("delete", "payloads")
    if delete not in get_args(Pruning):
        raise UsageError(f"retention.delete: {delete!r}; write payloads or sessions")
    return Retention(
        older_than=_seconds("older_than", facts["older_than"]),
        delete=delete,
        every_seconds=_seconds("every", facts.get("every", "1h")),
    )


def _seconds(key: str, written: object) -> float:
    try:
        return read_duration(written)
    except ToolcribError as error:
        raise UsageError(f"retention.{key}: {error}") from None


@runtime_checkable
class WeeklyStore(Protocol):
    """A store that keeps the records of a week apart, and drops them at once."""

    def drop_empty_weeks(self) -> int:
        """Drop the weeks whose every session was deleted; returns how many tables went."""
        ...


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted, or would be; and what is old and was left."""

    sessions: tuple[str, ...]
    records: int
    """The records of these sessions."""
    open: tuple[str, ...]
    """Old sessions that a process has open."""
    waiting: tuple[str, ...]
    """Old sessions with an open call or an approval that is not used."""


def prune(
    store: Store,
    retention: Retention,
    now: float,
    by: Actor,
    *,
    dry_run: bool = False,
    is_stopping: Callable[[], bool] = bool,
) -> Pruned:
    """Delete what is old, session by session: a crash leaves each whole or deleted. It ends early
    once `is_stopping` says so.
    """
    cutoff = now - retention.older_than
    pruned: list[SessionInfo] = []
    is_open: list[str] = []
    waiting: list[str] = []
    for info in every(lambda cursor: store.sessions(cursor=cursor)):
        if is_stopping():
            break
        if info.created_at >= cutoff or not _is_old(store, info, cutoff, retention.delete):
            continue
        if info.is_open:
            is_open.append(info.session_id)
        elif _is_waiting(store, info.session_id):
            waiting.append(info.session_id)
        elif dry_run or _delete(store, info, retention.delete, now, by):
            pruned.append(info)
        else:
            is_open.append(info.session_id)
    records = sum(info.head.seq for info in pruned if info.head is not None)
    if retention.delete == "sessions" and not dry_run and isinstance(store, WeeklyStore):
        store.drop_empty_weeks()
    names = tuple(info.session_id for info in pruned)
    return Pruned(names, records, tuple(is_open), tuple(waiting))


def _is_old(store: Store, info: SessionInfo, cutoff: float, delete: Pruning) -> bool:
    """Whether nothing has happened for long enough, and there is something to delete."""
    try:
        newest = next(store.records(info.session_id, limit=1, newest_first=True), None)
        if newest is not None and newest.at >= cutoff:
            return False
        if delete == "sessions" or newest is None or newest.kind != PayloadsDeleted.kind:
            return delete == "sessions" or newest is not None
        # Payloads go all at once: the first one is there only if the deletion was interrupted.
        first = next(store.records(info.session_id, limit=1))
        return first.payload is not None and first.seq != newest.seq
    except SessionNotFound:
        return False


def _is_waiting(store: Store, session_id: str) -> bool:
    if store.open_calls(session_id):
        return True
    approvals = every(lambda cursor: store.approvals(session_id=session_id, cursor=cursor))
    return any(filed.state != "used" for filed in approvals)


def _delete(store: Store, info: SessionInfo, delete: Pruning, now: float, by: Actor) -> bool:
    """Delete what is old of one session; False when somebody has opened it meanwhile."""
    try:
        if delete == "sessions":
            store.delete_session(info.session_id, last_seq=info.head.seq if info.head else 0)
        else:
            _delete_payloads(store, info, now, by)
    except (LeaseHeld, SessionNotFound):
        return False
    return True


def _delete_payloads(store: Store, info: SessionInfo, now: float, by: Actor) -> None:
    lease = store.acquire(info.session_id, create=False)
    try:
        if store.head(info.session_id) != info.head or _is_waiting(store, info.session_id):
            raise LeaseHeld(f"session {info.session_id!r} is in use again")
        seq, previous = end_of(info.head)
        deleted = PayloadsDeleted(session_id=info.session_id, at=now, actor=by, up_to=seq)
        store.commit(lease, Commit([seal(deleted, seq + 1, previous)], ()))
        store.delete_payloads(lease, seq)
        store.forget_keys(lease)
    finally:
        store.release(lease)


async def keep_retention(store: Store, retention: Retention, is_stopping: asyncio.Event) -> None:
    """Prune on a schedule until it is stopped. What fails is logged and tried again."""
    by = Actor("rule", "retention")
    while not is_stopping.is_set():
        try:
            pruned = await asyncio.to_thread(
                prune, store, retention, time.time(), by, is_stopping=is_stopping.is_set
            )
            if pruned.sessions:
                _log.info(
                    "retention: deleted %s of %d sessions", retention.delete, len(pruned.sessions)
                )
        except StoreError:
            _log.exception("retention: the store could not be pruned; it is tried again")
        with suppress(TimeoutError):
            async with asyncio.timeout(retention.every_seconds):
                await is_stopping.wait()
