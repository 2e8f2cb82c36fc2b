"""The ledger of a live session: where its one writer appends.

Appending hands over a function and what it needs to build the event. A record exists, built and
hashed, before anyone can read it; when nobody reads, a memory ledger does no such work on the
path of a call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from toolcrib.session.events import Event
from toolcrib.session.record import GENESIS, Head, Record, seal
from toolcrib.store.memory import MemoryStore
from toolcrib.store.store import Commit, Effect, Lease, Store

S = TypeVar("S")


class Ledger(Protocol):
    """Append-only, gap-free, hash-chained."""

    @property
    def lease(self) -> Lease: ...

    @property
    def is_durable(self) -> bool: ...

    def append(
        self, build: Callable[[S], Event], subject: S, effects: Sequence[Effect] = ()
    ) -> asyncio.Future[None] | None:
        """Append what `build(subject)` gives, with its effects. Await the future, if there is
        one, to know that it is durable. `subject` must not change any more where `build` looks.
        """
        ...

    def note(self, build: Callable[[S], Event], subject: S, effects: Sequence[Effect] = ()) -> None:
        """Append without waiting, from any thread; order is kept."""
        ...

    def records(self, after: int = 0) -> Iterator[Record]: ...

    def head(self) -> Head | None: ...

    def drop_payloads(self) -> None:
        """Forget payloads kept in memory, after the store has deleted its own."""
        ...

    async def flush(self) -> None:
        """Return when everything appended so far is durable."""
        ...


class MemoryLedger:
    """A ledger in this process's memory. Entries are sealed when somebody first reads them."""

    is_durable = False

    def __init__(self, store: MemoryStore, lease: Lease, restored: Sequence[Record] = ()) -> None:
        self.lease = lease
        self._store = store
        self._entries: list[Any] = list(restored)
        self._sealed = len(self._entries)
        self._sealing = threading.Lock()
        store.attach(lease.session_id, self.records)

    def append(
        self, build: Callable[[S], Event], subject: S, effects: Sequence[Effect] = ()
    ) -> None:
        # One atomic append: several threads may note events while another seals.
        self._entries.append((build, subject))
        if effects:
            self._store.apply(self.lease, effects)

    def note(
        self, build: Callable[[S], Event], subject: S, effects: Sequence[Effect] = ()
    ) -> None:
        self.append(build, subject, effects)

    def records(self, after: int = 0) -> Iterator[Record]:
        self._seal_all()
        return iter(self._entries[after : self._sealed])

    def head(self) -> Head | None:
        self._seal_all()
        if self._sealed == 0:
            return None
        last: Record = self._entries[self._sealed - 1]
        return Head(last.session_id, last.seq, last.hash)

    def drop_payloads(self) -> None:
        self._seal_all()
        with self._sealing:
            for index in range(self._sealed):
                self._entries[index] = replace(self._entries[index], payload=None)

    async def flush(self) -> None:
        return None

    def _seal_all(self) -> None:
        with self._sealing:
            previous = self._entries[self._sealed - 1].hash if self._sealed else GENESIS
            for index in range(self._sealed, len(self._entries)):
                build, subject = self._entries[index]
                record = seal(build(subject), index + 1, previous)
                self._entries[index] = record
                self._sealed = index + 1
                previous = record.hash


@dataclass(slots=True)
class _Entry:
    build: Callable[[Any], Event] | None
    subject: Any
    effects: Sequence[Effect]
    waiter: asyncio.Future[None] | None


class DurableLedger:
    """A ledger in a durable store. What is appended at about the same time is committed together:
    the store's writer thread seals and writes it, then the waiting calls go on.
    """

    is_durable = True

    def __init__(self, store: Store, lease: Lease) -> None:
        self.lease = lease
        self._store = store
        self._head = store.head(lease.session_id)
        self._drained_head = self._head
        self._lock = threading.Lock()
        self._waiting: list[_Entry] = []
        self._in_flight: list[_Entry] = []
        self._is_scheduled = False

    def append(
        self, build: Callable[[S], Event], subject: S, effects: Sequence[Effect] = ()
    ) -> asyncio.Future[None]:
        waiter = asyncio.get_running_loop().create_future()
        self._enqueue(_Entry(build, subject, effects, waiter))
        return waiter

    def note(self, build: Callable[[S], Event], subject: S, effects: Sequence[Effect] = ()) -> None:
        self._enqueue(_Entry(build, subject, effects, None))

    def records(self, after: int = 0) -> Iterator[Record]:
        return self._store.records(self.lease.session_id, after=after)

    def head(self) -> Head | None:
        return self._store.head(self.lease.session_id)

    def drop_payloads(self) -> None:
        return None

    async def flush(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._enqueue(_Entry(None, None, (), waiter))
        await waiter

    def _enqueue(self, entry: _Entry) -> None:
        with self._lock:
            self._waiting.append(entry)
            should_schedule = not self._is_scheduled
            self._is_scheduled = True
        if should_schedule:
            self._store.schedule(self)

    def drain(self) -> Commit:
        with self._lock:
            self._in_flight, self._waiting = self._waiting, []
            self._is_scheduled = False
        self._drained_head = self._head
        records: list[Record] = []
        for entry in self._in_flight:
            if entry.build is not None:
                records.append(self._seal(entry.build(entry.subject)))
        effects = [effect for entry in self._in_flight for effect in entry.effects]
        return Commit(records, effects)

    def _seal(self, event: Event) -> Record:
        head = self._drained_head
        record = seal(event, head.seq + 1 if head else 1, head.hash if head else GENESIS)
        self._drained_head = Head(record.session_id, record.seq, record.hash)
        return record

    def settled(self, error: BaseException | None) -> None:
        # After a failed commit the chain goes on from the last record that is durable.
        if error is None:
            self._head = self._drained_head
        waiters = [entry.waiter for entry in self._in_flight if entry.waiter is not None]
        self._in_flight = []
        for loop in {waiter.get_loop() for waiter in waiters}:
            mine = [waiter for waiter in waiters if waiter.get_loop() is loop]
            # A loop that is gone has nobody left to tell.
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, mine, error)


def _wake(waiters: list[asyncio.Future[None]], error: BaseException | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)
