"""A session: one ledger, one bus, and everything that is a view of them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from toolcrib.approval.decision import Actor
from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import StoreError
from toolcrib.ledger.events import (
    Event,
    PayloadsDeleted,
    SessionOpened,
    SettingsSaved,
)
from toolcrib.ledger.record import Head, Record, deletion_end, events
from toolcrib.session.approvals import Approvals
from toolcrib.session.artifacts import Artifacts
from toolcrib.session.bus import EventBus
from toolcrib.session.doubt import found_in_doubt
from toolcrib.session.reducers import Reducers
from toolcrib.session.session_id import check_session_id
from toolcrib.session.settings import keep_settings, last_turn, settings_of, tool_names
from toolcrib.session.turns import turn_here
from toolcrib.store.ledger_writer import Entry as LedgerEntry
from toolcrib.store.ledger_writer import Ledger, entry_of
from toolcrib.store.memory import MemoryStore
from toolcrib.store.store import (
    CallOpened,
    Commit,
    Effect,
    Lease,
    OpenCall,
    SettingsKept,
    Store,
    ask_store,
)
from toolcrib.store.verification import settings_digest, verify_session

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.approval.question import Responder
    from toolcrib.prices.cost import Cost
    from toolcrib.session.questions import Questions
    from toolcrib.session.state import ResumableState
    from toolcrib.session.transcript import Entry

S = TypeVar("S")
E = TypeVar("E", bound=Event)
T = TypeVar("T")

Unanswered = Literal["wait", "deny"]
"""What becomes of a call that nobody here can approve: it waits, or it is denied."""


class ExecutorState(Protocol):
    """What the executors of a session share, as far as the session itself needs it."""

    @property
    def running_ids(self) -> Collection[str]:
        """Calls whose handler runs now: the session cannot be exported meanwhile."""
        ...

    def restore(self, waiting: Iterable[str]) -> None:
        """The session went on from a state in which these calls wait."""
        ...


class Attendance(Protocol):
    """The people behind a session that is served. Its host attaches it."""

    def has_responders(self, caller: Caller) -> bool:
        """Whether somebody may answer a question of a call."""
        ...

    def has_approvers(self, caller: Caller) -> bool:
        """Whether a call may wait for a decision while the call around it runs."""
        ...

    async def decided(self, request: ApprovalRequest) -> bool:
        """Wait until a request is decided or expires; False when the session is closing."""
        ...


class Session:
    """Holds what happened and what waits. `Session()` lives in memory; `Session.open` in a store.

    One process writes a session at a time. Use it as an async context manager, or `close` it. A
    `lease` is one that this process has got for the session already.
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        store: Store | None = None,
        bus: EventBus | None = None,
        clock: Clock | None = None,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        deps: Any = None,
        need_user_approve_tools: Iterable[str] = (),
        unanswered: Unanswered = "wait",
        approve_own_calls: bool = False,
        owner: str | None = None,
        responder: Responder | None = None,
        lease: Lease | None = None,
    ) -> None:
        self.store: Store = MemoryStore(clock=clock or SYSTEM_CLOCK) if store is None else store
        self.session_id = check_session_id(session_id or f"ses_{os.urandom(8).hex()}")
        self.bus = bus or EventBus()
        self.clock = clock or self.store.clock
        self.cwd = cwd or os.getcwd()
        self.environment = dict(environment or {})
        self.metadata = dict(metadata or {})
        self.deps = deps
        self.unanswered: Unanswered = unanswered
        self.approve_own_calls = approve_own_calls
        """Whether people may approve the calls that they asked for themselves."""
        self.reducers = Reducers()
        self._is_closed = False
        self._has_unwritten = False
        lease = lease or self.store.acquire(self.session_id, owner=owner)
        self.ledger: Ledger = self.store.open_ledger(lease)
        stored = self.store.session(self.session_id)
        self._opened_by = owner
        self.owner = stored.owner
        """The principal that made the session; None when the process itself did."""
        self._saved = stored.settings
        self._host_settings: dict[str, Any] = dict(self._saved.get("host", {}))
        self._last_turn = last_turn(self.store, stored)
        self._calls_made = 0
        self._numbering = threading.Lock()
        self.need_user_approve_tools = union(
            tool_names(need_user_approve_tools), self._saved.get("need_user_approve_tools", ())
        )
        """Tools that always need a person's yes. Read at every call, so changes work at once."""
        self.artifacts = Artifacts(self.store, self.session_id)
        self.approvals = Approvals(self)
        if responder is not None:
            self.questions.responder = responder
        self.attendance: Attendance | None = None
        self.executor_state: ExecutorState | None = None
        """What the executors of this session share, attached by the first of them. Only
        `toolcrib.calls.call` uses it.
        """
        self._note_opened()
        self._recover()

    @classmethod
    async def open(cls, store: Store, session_id: str | None = None, **options: Any) -> Session:
        """`Session(..., store=store)` without blocking the event loop. Raises `LeaseHeld` while
        another process writes the session.
        """
        session = await asyncio.to_thread(lambda: cls(session_id, store=store, **options))
        # Whoever asks what is in doubt right away must see what was just found.
        await session.ledger.flush()
        return session

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @cached_property
    def questions(self) -> Questions:
        """The questions of running calls to people. Made when somebody first asks."""
        from toolcrib.session.questions import Questions

        return Questions(self)

    @property
    def lease(self) -> Lease:
        """This process's right to write the session."""
        return self.ledger.lease

    @property
    def is_heard(self) -> bool:
        """True when somebody needs events as they happen; others need not be built."""
        return bool(self.bus.subscribers or self.reducers.slices)

    @property
    def last_turn(self) -> int:
        """The number of the turn that began last; 0 before the first."""
        return self._last_turn

    @property
    def calls_made(self) -> int:
        """How many calls got their id from `next_call_id`."""
        return self._calls_made

    @property
    def turn(self) -> int:
        """The number of the turn that the running code is part of; outside of turns, of the one
        that began last.
        """
        turn = turn_here(self)
        return self._last_turn if turn is None else turn.number

    def next_turn(self) -> int:
        """The number of a turn that begins now. Turns may begin in several threads at once."""
        with self._numbering:
            self._last_turn += 1
            # The ledger has the number: what begins a turn is written before what is in it.
            if self._settings(self._saved.get("turn", 0)) != self._saved:
                self.save_settings()
            return self._last_turn

    def number_turns_after(self, turn: int) -> None:
        """Let the next turn be `turn + 1`, in a session that begins with another one's turns."""
        with self._numbering:
            self._last_turn = turn

    def number_calls_after(self, call_ids: Iterable[str | None]) -> None:
        """Let no call get one of these ids, in a session that begins with another one's calls."""
        prefix = f"call_{self.lease.fence}_"
        taken = [each.removeprefix(prefix) for each in call_ids if each and each.startswith(prefix)]
        numbers = [int(number) for number in taken if number.isdecimal() and len(number) < 19]
        self._calls_made = max([self._calls_made, *numbers])

    def next_call_id(self) -> str:
        """An id that no call of this session has. The fence makes it unique over every process
        that ever writes the session.
        """
        self._calls_made += 1
        return f"call_{self.ledger.lease.fence}_{self._calls_made}"

    def host_setting(self, key: str) -> Any:
        """A JSON value that the host of the session saves with it; None when there is none."""
        return self._host_settings.get(key)

    def set_host_setting(self, key: str, value: Any) -> None:
        """Change a setting of the host, or remove it with None. `save_settings` writes it down."""
        if value is None:
            self._host_settings.pop(key, None)
        else:
            self._host_settings[key] = value

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
        if self.reducers.slices:
            self.reducers.apply(event)
        if self.bus.subscribers:
            self.bus.publish(event)

    def add_reducer(
        self, key: str, event_type: type[E], reducer: Callable[[S, E], S], initial: S
    ) -> None:
        """Fold every event of a type, past ones included, into the state `key`."""
        self.reducers.add(key, event_type, reducer, initial, self.events())

    def state(self, key: str) -> Any:
        """The current state of a reducer."""
        return self.reducers.state(key)

    def records(
        self,
        after: int = 0,
        *,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        """The ledger's records with `seq > after`; see `Store.records`."""
        self._write_out()
        return self.store.records(
            self.session_id, after=after, limit=limit, kinds=kinds, newest_first=newest_first
        )

    def events(
        self, after: int = 0, *, kinds: Collection[str] | None = None, newest_first: bool = False
    ) -> Iterator[Event]:
        """The events of the ledger's records, without those whose payloads were deleted.

        Raises `LedgerBroken` at a payload that is missing and was not deleted by `delete_payloads`.
        """
        records = self.records(after, kinds=kinds, newest_first=newest_first)
        return events(records, self._deleted_up_to)

    def transcript(self) -> tuple[Entry, ...]:
        """What happened, call by call, as a person would read it."""
        from toolcrib.session.transcript import transcript

        return transcript(self.records())

    def cost(self, turn: int | None = None) -> Cost:
        """What the requests to models and the provider-run calls cost, in all turns or in one."""
        from toolcrib.session.transcript import SPENDING_KINDS, cost_in

        return cost_in(self.events(kinds=SPENDING_KINDS), turn)

    def head(self) -> Head | None:
        """The end of the ledger: keep it elsewhere to find a cut tail later."""
        self._write_out()
        return self.store.head(self.session_id)

    def verify(self, head: Head | None = None) -> Head | None:
        """Check ledger, artifacts and settings; raises `LedgerBroken` at the first fault."""
        self._write_out()
        return verify_session(self.store, self.session_id, [head] if head else []).head

    def open_calls(self) -> list[OpenCall]:
        """Calls that wait, run, or are in doubt."""
        self._write_out()
        return self.store.open_calls(self.session_id)

    def known_call(self, call_id: str) -> OpenCall | Record | None:
        """The open call of an id, or the record of its end; see `Store.known_call`."""
        self._write_out()
        return self.store.known_call(self.session_id, call_id)

    def in_doubt(self) -> list[OpenCall]:
        """Calls that a dead process had started and not finished."""
        return [call for call in self.open_calls() if call.state == "in_doubt"]

    def save_settings(self) -> None:
        """Make the approval list durable, if it changed, so that a crash cannot weaken it."""
        now = self._settings(self._last_turn)
        if now == self._saved:
            return
        digest = settings_digest(now, self.owner)
        if digest == settings_digest(self._saved, self.owner):
            self.store.commit(self.lease, Commit((), (SettingsKept(now),)))
        else:
            # In one commit with the record of it, so that a crash cannot come between them.
            saved = SettingsSaved(session_id=self.session_id, at=self.clock(), digest=digest)
            self.append_soon(entry_of(saved), (SettingsKept(now),))
            self.store.commit(self.lease, Commit((), ()))
            stored = self.store.session(self.session_id).settings
            if settings_digest(stored, self.owner) != digest:
                raise StoreError(f"the settings of session {self.session_id!r} were not saved")
            self.announce(saved)
        self._saved = now

    async def keep_settings(self) -> None:
        """Do as `save_settings` does, in the order of the ledger, without blocking the loop."""
        now = self._settings(self._last_turn)
        if now != self._saved and await keep_settings(self, self._saved, now):
            self._saved = now

    def _settings(self, turn: int) -> dict[str, Any]:
        return settings_of(self.need_user_approve_tools, self._host_settings, turn)

    def export_state(self, *, key: bytes | None = None) -> ResumableState:
        """The session in a form that can go on in another process; see `ResumableState`."""
        from toolcrib.session.state import export_state

        return export_state(self, key=key)

    def with_state(self, state: ResumableState | None, *, key: bytes | None = None) -> Session:
        """Go on where `state` ended; None changes nothing. Never weakens what is set here."""
        from toolcrib.session.state import restore_state

        if state is not None:
            restore_state(self, state, key=key)
        return self

    def adopt(self, state: ResumableState) -> None:
        """Become the session of a checked state; for `restore_state`."""
        from toolcrib.session.state import replace_session

        self.ledger = replace_session(self.store, self.lease, state, owner=self.owner)
        self.session_id = state.session_id
        self._saved = self.store.session(self.session_id).settings
        self._last_turn = state.turn
        self._calls_made = state.calls_made
        self.need_user_approve_tools = union(
            state.need_user_approve_tools, self.need_user_approve_tools
        )
        self.artifacts = Artifacts(self.store, self.session_id)
        if self.executor_state is not None:
            self.executor_state.restore(call.call_id for call in state.open_calls)
        for event in events(state.records, lambda: deletion_end(state.records)):
            self.reducers.apply(event)

    async def delete_payloads(self, by: str) -> None:
        """Delete what the records so far hold. The chain stays and still verifies."""
        await self.ledger.flush()
        head = await ask_store(self.store, self.head)
        up_to = head.seq if head else 0
        # First: payloads that are gone without a record of it look like the work of a thief.
        await self.record(
            PayloadsDeleted(
                session_id=self.session_id, at=self.clock(), actor=Actor("person", by), up_to=up_to
            )
        )
        await ask_store(self.store, self.store.delete_payloads, self.lease, up_to)

    async def close(self, *, releases: bool = True) -> None:
        """Write what is left; let another process write, unless who brought the lease does so."""
        if self._is_closed:
            return
        self._is_closed = True
        if "questions" in self.__dict__:
            self.questions.withdraw_all("the session was closed")
        try:
            await self.ledger.flush()
            await ask_store(self.store, self.save_settings)
        finally:
            if releases:
                await ask_store(self.store, self.store.release, self.lease)
            self.ledger.close()

    def _note_opened(self) -> None:
        self.note(
            SessionOpened(
                session_id=self.session_id,
                at=self.clock(),
                fence=self.lease.fence,
                principal=self._opened_by,
                settings_digest=settings_digest(self._saved, self.owner),
            )
        )

    def _recover(self) -> None:
        """Report calls that an earlier writer started and did not finish, once each."""
        interrupted: list[OpenCall] = []
        for call in self.open_calls():
            if call.state == "started":
                interrupted.append(call)
                doubt, reopened = found_in_doubt(self.store, call, self.session_id, self.clock())
                self.append_soon(entry_of(doubt), (CallOpened(reopened),))
                self.announce(doubt)
        if interrupted:
            from toolcrib.session.questions import withdraw_lost

            withdraw_lost(self, interrupted)

    def _deleted_up_to(self) -> int:
        return deletion_end(self.records(kinds=(PayloadsDeleted.kind,)))

    def _write_out(self) -> None:
        """Have written what nobody waited for, so that whoever reads now finds it."""
        if not self._has_unwritten:
            return
        self._has_unwritten = False
        # A session that another process writes by now can still be read.
        with suppress(StoreError):
            self.store.commit(self.lease, Commit((), ()))


def union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    """Both lists without repeats, in order."""
    return list(dict.fromkeys([*first, *second]))
