"""The ledger of a live session: where its one writer appends.

Appending hands over a function and what it needs to encode the event. A record exists, encoded
and hashed, before anyone can read it; when nobody reads, a memory ledger does no such work on the
path of a call.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from toolcrib.errors import LeaseLost
from toolcrib.ledger.encoding import encode_event
from toolcrib.ledger.events import Event
from toolcrib.ledger.record import GENESIS, Head, Record, link, seal_payload
from toolcrib.store.memory import MemoryStore
from toolcrib.store.store import Commit, Effect, Lease, Store

Entry = tuple[str, float, str | None, Callable[[Any], bytes], Any]
"""Kind, time, call id, and how to encode the payload from what: `encode(subject)`.

The subject must not change any more where `encode` looks. A plain tuple, because two are made for
every call.
"""


def entry_of(event: Event) -> Entry:
    """An event that exists already, as an entry."""
    return event.kind, event.at, getattr(event, "call_id", None), encode_event, event


class Ledger(Protocol):
    """Append-only, gap-free, hash-chained."""

    @property
    def lease(self) -> Lease: ...

    @property
    def is_durable(self) -> bool: ...

    def append(self, entry: Entry, effects: Sequence[Effect] = ()) -> asyncio.Future[None] | None:
        """Append an entry with its effects. Await the future, if there is one, to know that it is
        durable.
        """
        ...

    def note(self, entry: Entry, effects: Sequence[Effect] = ()) -> None:
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

    def close(self) -> None:
        """Take nothing more: the lease is given back. Reading goes on."""
        ...


class MemoryLedger:
    """A ledger in this process's memory. Entries are sealed when somebody first reads them."""

    is_durable = False

    def __init__(self, store: MemoryStore, lease: Lease, restored: Sequence[Record] = ()) -> None:
        self.lease = lease
        self._store = store
        # Appending to it is atomic: several threads may note events while another seals.
        self._waiting = deque[Entry]()
        # Tuples, made into records only for readers: a `Record` costs more to make than to hash.
        self._sealed = [_sealed(record) for record in restored]
        self._sealing = threading.Lock()
        self._is_closed = False
        store.attach(lease.session_id, self)

    def append(self, entry: Entry, effects: Sequence[Effect] = ()) -> None:
        if self._is_closed:
            raise LeaseLost(f"session {self.lease.session_id!r} was closed; open it again")
        self._waiting.append(entry)
        if effects:
            self._store.apply(self.lease, effects)

    def note(self, entry: Entry, effects: Sequence[Effect] = ()) -> None:
        # Like any store's: nobody waits for what is noted, so nobody is told that it was too late.
        if not self._is_closed:
            self.append(entry, effects)

    def records(self, after: int = 0) -> Iterator[Record]:
        self._seal_all()
        session_id = self.lease.session_id
        sealed = self._sealed[after:]
        return (
            Record(session_id, seq, *facts) for seq, facts in enumerate(sealed, start=after + 1)
        )

    def head(self) -> Head | None:
        self._seal_all()
        sealed = self._sealed
        return Head(self.lease.session_id, len(sealed), sealed[-1][-1]) if sealed else None

    def drop_payloads(self) -> None:
        self._seal_all()
        with self._sealing:
            for index, facts in enumerate(self._sealed):
                self._sealed[index] = (*facts[:3], None, *facts[4:])

    async def flush(self) -> None:
        return None

    def close(self) -> None:
        self._is_closed = True

    def _seal_all(self) -> None:
        session_id, waiting, sealed = self.lease.session_id, self._waiting, self._sealed
        if not waiting:
            return
        # Names of this function: each record asks for them.
        hashed, chain, keep, drop = sha256, link, sealed.append, waiting.popleft
        with self._sealing:
            seq = len(sealed)
            previous = sealed[-1][-1] if sealed else GENESIS
            for _ in range(len(waiting)):
                kind, at, call_id, encode, subject = waiting[0]
                payload = encode(subject)
                digest = hashed(payload).hexdigest()
                seq += 1
                chained = chain(previous, session_id, seq, kind, at, call_id, digest)
                keep((kind, at, call_id, payload, digest, previous, chained))
                # Not before: what cannot be encoded must not leave a gap.
                drop()
                previous = chained


_Sealed = tuple[str, float, str | None, bytes | None, str, str, str]


def _sealed(record: Record) -> _Sealed:
    return (
        record.kind,
        record.at,
        record.call_id,
        record.payload,
        record.payload_digest,
        record.previous,
        record.hash,
    )


@dataclass(slots=True)
class _Waiting:
    entry: Entry | None
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
        self._waiting: list[_Waiting] = []
        self._in_flight: list[_Waiting] = []
        self._is_scheduled = False

    def append(self, entry: Entry, effects: Sequence[Effect] = ()) -> asyncio.Future[None]:
        waiter = asyncio.get_running_loop().create_future()
        self._enqueue(_Waiting(entry, effects, waiter))
        return waiter

    def note(self, entry: Entry, effects: Sequence[Effect] = ()) -> None:
        self._enqueue(_Waiting(entry, effects, None))

    def records(self, after: int = 0) -> Iterator[Record]:
        return self._store.records(self.lease.session_id, after=after)

    def head(self) -> Head | None:
        return self._store.head(self.lease.session_id)

    def drop_payloads(self) -> None:
        return None

    async def flush(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._enqueue(_Waiting(None, (), waiter))
        await waiter

    def close(self) -> None:
        # The store itself refuses what comes under a lease that was given back.
        return None

    def _enqueue(self, waiting: _Waiting) -> None:
        with self._lock:
            self._waiting.append(waiting)
            should_schedule = not self._is_scheduled
            self._is_scheduled = True
        if should_schedule:
            self._store.schedule(self)

    def drain(self) -> Commit:
        with self._lock:
            self._in_flight, self._waiting = self._waiting, []
            self._is_scheduled = False
        self._drained_head = self._head
        records = [self._seal(each.entry) for each in self._in_flight if each.entry is not None]
        effects = [effect for each in self._in_flight for effect in each.effects]
        return Commit(records, effects)

    def _seal(self, entry: Entry) -> Record:
        head = self._drained_head
        kind, at, call_id, encode, subject = entry
        record = seal_payload(
            self.lease.session_id,
            kind,
            at,
            call_id,
            encode(subject),
            head.seq + 1 if head else 1,
            head.hash if head else GENESIS,
        )
        self._drained_head = Head(record.session_id, record.seq, record.hash)
        return record

    def settled(self, error: BaseException | None) -> None:
        # After a failed commit the chain goes on from the last record that is durable.
        if error is None:
            self._head = self._drained_head
        waiters = [each.waiter for each in self._in_flight if each.waiter is not None]
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
