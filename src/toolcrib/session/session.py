"""A session: one ledger, one bus, and everything that is a view of them."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeVar

from toolcrib.approval.decision import Actor
from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import StoreError, UsageError
from toolcrib.ledger.events import CallInDoubt, Event, PayloadsDeleted, SessionOpened
from toolcrib.ledger.record import Head, Record, events, verify
from toolcrib.session.approvals import Approvals
from toolcrib.session.artifacts import Artifacts
from toolcrib.session.bus import EventBus
from toolcrib.session.ledger_writer import DurableLedger, Ledger, MemoryLedger, entry_of
from toolcrib.session.ledger_writer import Entry as LedgerEntry
from toolcrib.session.reducers import Reducers
from toolcrib.session.state import ResumableState, export_state, restore_state
from toolcrib.session.transcript import Entry, transcript
from toolcrib.session.turns import turn_here
from toolcrib.store.memory import MemoryStore
from toolcrib.store.store import (
    ArtifactKept,
    CallOpened,
    Commit,
    Effect,
    Lease,
    OpenCall,
    Store,
    ask_store,
)

S = TypeVar("S")
E = TypeVar("E", bound=Event)
T = TypeVar("T")

Unanswered = Literal["wait", "deny"]
"""What becomes of a call that nobody here can approve: it waits, or it is denied."""


class Session:
    """Holds what happened and what waits. `Session()` lives in memory; `Session.open` in a store.

    One process writes a session at a time. Use it as an async context manager, or `close` it.
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        store: Store | None = None,
        bus: EventBus | None = None,
        clock: Clock = SYSTEM_CLOCK,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        deps: Any = None,
        need_user_approve_tools: Iterable[str] = (),
        unanswered: Unanswered = "wait",
    ) -> None:
        self.store: Store = MemoryStore(clock=clock) if store is None else store
        self.session_id = check_session_id(session_id or f"ses_{uuid.uuid4().hex[:16]}")
        self.bus = bus or EventBus()
        self.clock = clock
        self.cwd = cwd or os.getcwd()
        self.environment = dict(environment or {})
        self.metadata = dict(metadata or {})
        self.deps = deps
        self.unanswered: Unanswered = unanswered
        self.reducers = Reducers()
        self._is_closed = False
        self._has_unwritten = False
        lease = self.store.acquire(self.session_id)
        self.ledger: Ledger = open_ledger(self.store, lease)
        self._saved = self.store.session(self.session_id).settings
        self.kept: dict[str, Any] = dict(self._saved.get("kept", {}))
        """What whoever holds the session keeps with it, as JSON; saved with the settings."""
        self.last_turn: int = self._saved.get("turn", 0)
        """The number of the turn that began last; 0 before the first."""
        self._numbering = threading.Lock()
        if isinstance(need_user_approve_tools, str):
            raise UsageError(
                "need_user_approve_tools is a list of names; a plain text would be taken letter "
                f"by letter: write [{need_user_approve_tools!r}]"
            )
        self.need_user_approve_tools = union(
            need_user_approve_tools, self._saved.get("need_user_approve_tools", ())
        )
        """Tools that always need a person's yes. Read at every call, so changes work at once."""
        self.artifacts = Artifacts(self.store, self.session_id)
        self.approvals = Approvals(self)
        self.calls_made = 0
        self.waiting = {call.call_id for call in self.open_calls()}
        """Ids of open calls that can be taken up again."""
        self.running: dict[str, Any] = {}
        """Calls whose handler runs in this process now, by id."""
        self.claimed: set[str] = set()
        """Open calls that a task of this process is working on, so that no other takes them up."""
        self.note(SessionOpened(session_id=self.session_id, at=clock(), fence=lease.fence))
        self._recover()

    @classmethod
    async def open(cls, store: Store, session_id: str | None = None, **options: Any) -> Session:
        """Open a session of a store, new or old, without blocking the event loop.

        Takes the options of `Session`. Raises `LeaseHeld` while another process writes it.
        """
        session = await asyncio.to_thread(lambda: cls(session_id, store=store, **options))
        # Whoever asks what is in doubt right away must see what was just found.
        await session.ledger.flush()
        return session

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def lease(self) -> Lease:
        """This process's right to write the session."""
        return self.ledger.lease

    @property
    def is_heard(self) -> bool:
        """True when somebody needs events as they happen; others need not be built."""
        return bool(self.bus.subscribers or self.reducers.slices)

    @property
    def turn(self) -> int:
        """The number of the turn that the running code is part of; outside of turns, of the one
        that began last.
        """
        turn = turn_here(self)
        return self.last_turn if turn is None else turn.number

    def next_turn(self) -> int:
        """The number of a turn that begins now. Turns may begin in several threads at once."""
        with self._numbering:
            self.last_turn += 1
            self.save_settings()
            return self.last_turn

    def note(self, event: Event) -> None:
        """Append an event, without waiting for it to be durable, and announce it."""
        self.append_soon(entry_of(event))
        self.announce(event)

    def append_soon(self, entry: LedgerEntry, effects: Sequence[Effect] = ()) -> None:
        """Append to the ledger without waiting for it to be durable. Readers here wait for it."""
        self.ledger.note(entry, effects)
        self._has_unwritten = self.ledger.is_durable

    async def record(self, event: Event, effects: Sequence[Effect] = ()) -> None:
        """Append an event and its effects, wait until they are durable, and announce it."""
        durable = self.ledger.append(entry_of(event), effects)
        await self.announce_when(durable, lambda: event)

    async def announce_when(
        self, durable: Awaitable[None] | None, build: Callable[[], Event]
    ) -> None:
        """Announce an event as soon as it is durable. Who stops waiting does not undo it: what is
        on its way into the ledger is announced at once then.
        """
        try:
            if durable is not None:
                await durable
        except asyncio.CancelledError:
            self._has_unwritten = self.ledger.is_durable
            self.announce(build())
            raise
        if self.is_heard:
            self.announce(build())

    def announce(self, event: Event) -> None:
        """Tell reducers and subscribers of an event that is in the ledger."""
        self.reducers.apply(event)
        self.bus.publish(event)

    def add_reducer(
        self, key: str, event_type: type[E], reducer: Callable[[S, E], S], initial: S
    ) -> None:
        """Fold every event of a type, past ones included, into the state `key`."""
        self.reducers.add(key, event_type, reducer, initial, events(self.records()))

    def state(self, key: str) -> Any:
        """The current state of a reducer."""
        return self.reducers.state(key)

    def records(self, after: int = 0) -> Iterator[Record]:
        """The ledger's records with `seq > after`."""
        self._write_out()
        return self.ledger.records(after)

    def transcript(self) -> tuple[Entry, ...]:
        """What happened, call by call, as a person would read it."""
        return transcript(self.records())

    def head(self) -> Head | None:
        """The end of the ledger: keep it elsewhere to find a cut tail later."""
        self._write_out()
        return self.ledger.head()

    def verify(self, head: Head | None = None) -> Head | None:
        """Check the whole ledger; raises `LedgerBroken` at the first record that is wrong."""
        return verify(self.records(), head)

    def open_calls(self) -> list[OpenCall]:
        """Calls that wait, run, or are in doubt."""
        self._write_out()
        return self.store.open_calls(self.session_id)

    def in_doubt(self) -> list[OpenCall]:
        """Calls that a dead process had started and not finished."""
        return [call for call in self.open_calls() if call.state == "in_doubt"]

    def save_settings(self) -> None:
        """Make the approval list durable, if it changed, so that a crash cannot weaken it."""
        names = list(self.need_user_approve_tools)
        now: dict[str, Any] = {"need_user_approve_tools": names, "turn": self.last_turn}
        if self.kept:
            now["kept"] = dict(self.kept)
        if now != self._saved:
            self.store.save_settings(self.lease, now)
            self._saved = now

    def export_state(self, *, key: bytes | None = None) -> ResumableState:
        """The session in a form that can go on in another process; see `ResumableState`."""
        return export_state(self, key=key)

    def with_state(self, state: ResumableState | None, *, key: bytes | None = None) -> Session:
        """Go on where `state` ended; None changes nothing. Never weakens what is set here."""
        if state is not None:
            restore_state(self, state, key=key)
        return self

    def adopt(self, state: ResumableState) -> None:
        """Become the session of a checked state; for `restore_state`."""
        assert isinstance(self.store, MemoryStore)
        self.store.release(self.lease)
        self.store.delete_session(self.session_id)
        self.session_id = state.session_id
        lease = self.store.acquire(self.session_id)
        self.ledger = MemoryLedger(self.store, lease, state.records)
        self.store.restore(lease, state.open_calls, state.approvals, state.grants)
        self.store.apply(lease, [ArtifactKept(artifact) for artifact in state.artifacts])
        self.last_turn = state.turn
        self.calls_made = state.calls_made
        self.need_user_approve_tools = union(
            state.need_user_approve_tools, self.need_user_approve_tools
        )
        self.artifacts = Artifacts(self.store, self.session_id)
        self.waiting = {call.call_id for call in state.open_calls}
        for event in events(state.records):
            self.reducers.apply(event)

    async def delete_payloads(self, by: str) -> None:
        """Delete what the records so far hold. The chain stays and still verifies."""
        await self.ledger.flush()
        await ask_store(self.store, self.store.delete_payloads, self.lease)
        self.ledger.drop_payloads()
        await self.record(
            PayloadsDeleted(session_id=self.session_id, at=self.clock(), actor=Actor("person", by))
        )

    async def close(self) -> None:
        """Write what is left and let another process become the writer."""
        if self._is_closed:
            return
        self._is_closed = True
        await self.ledger.flush()
        await ask_store(self.store, self.save_settings)
        await ask_store(self.store, self.store.release, self.lease)
        self.ledger.close()

    def _recover(self) -> None:
        """Report calls that an earlier writer started and did not finish, once each."""
        for call in self.open_calls():
            if call.state == "started":
                doubt = CallInDoubt(
                    session_id=self.session_id,
                    at=self.clock(),
                    call_id=call.call_id,
                    tool=call.tool,
                )
                reopened = CallOpened(replace(call, state="in_doubt"))
                self.append_soon(entry_of(doubt), (reopened,))
                self.announce(doubt)

    def _write_out(self) -> None:
        """Have written what nobody waited for, so that whoever reads now finds it."""
        if not self._has_unwritten:
            return
        self._has_unwritten = False
        # A session that another process writes by now can still be read.
        with suppress(StoreError):
            self.store.commit(self.lease, Commit((), ()))


def open_ledger(store: Store, lease: Lease) -> Ledger:
    """The ledger for a lease, of the kind its store needs."""
    if isinstance(store, MemoryStore):
        return MemoryLedger(store, lease, list(store.records(lease.session_id)))
    return DurableLedger(store, lease)


def check_session_id(session_id: str) -> str:
    """Refuse ids that could be mistaken for something else on a wire or in a head."""
    if (
        not session_id
        or len(session_id) > 128
        or not all(char.isascii() and (char.isalnum() or char in "_.:-") for char in session_id)
    ):
        raise UsageError(
            f"{session_id!r} is not a session id; use 1 to 128 letters, digits, '_', '.', ':', '-'"
        )
    return session_id


def union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    """Both lists without repeats, in order."""
    return list(dict.fromkeys([*first, *second]))
