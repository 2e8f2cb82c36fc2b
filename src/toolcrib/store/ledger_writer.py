"""The writing end of a ledger, where the one writer of a session appends.

An entry is a function and the subject that it encodes. Every record is encoded and hashed before
anyone can read it. `DurableLedger` does this in the store's writer thread; `MemoryLedger` puts it
off until somebody reads, so that it costs a call nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol

from toolcrib.errors import LeaseLost
from toolcrib.ledger.encoding import encode_event
from toolcrib.ledger.events import Event, ToolInvoked
from toolcrib.ledger.record import GENESIS, Head, Record, link, seal_payload
from toolcrib.store.record_marks import MARKED_KINDS, marked
from toolcrib.store.store import Commit, CommitSource, Effect, Lease

if TYPE_CHECKING:
    from toolcrib.store.store import Store


_log = logging.getLogger("toolcrib.store")

Entry = tuple[str, float, str | None, Callable[[Any], bytes], Any]
"""Kind, time, call id, and how to encode the payload from what: `encode(subject)`.

The subject must not change any more where `encode` looks. A plain tuple, because two are made for
every call.
"""


def entry_of(event: Event) -> Entry:
    """An event that exists already, as an entry."""
    return event.kind, event.at, getattr(event, "call_id", None), encode_event, event


Drained = tuple[CommitSource, Commit]
"""A ledger that is to be written, and what it has."""


def drained_commit(source: CommitSource) -> Drained | None:
    """What a ledger has to write; None for one that fails, which is told so."""
    try:
        return source, source.drain()
    except Exception as error:
        settle_source(source, error)
        return None


def settle_source(source: CommitSource, error: BaseException | None) -> None:
    """Tell a ledger that its commit was written, or why not. One that fails then keeps no other
    from being told.
    """
    try:
        source.settled(error)
    except Exception:
        _log.exception("a ledger failed while its records were settled")


class Ledger(Protocol):
    """Appends to one session under one lease: gap-free, hash-chained. Reading is the store's."""

    @property
    def lease(self) -> Lease: ...

    @property
    def is_durable(self) -> bool:
        """True when appended entries must be waited for to be in the store."""
        ...

    def append(self, entry: Entry, effects: Sequence[Effect] = ()) -> asyncio.Future[None] | None:
        """Append an entry with its effects. Await the future, if there is one, to know that it is
        durable.
        """
        ...

    def note(self, entry: Entry, effects: Sequence[Effect] = ()) -> None:
        """Append without waiting, from any thread; order is kept."""
        ...

    async def flush(self) -> None:
        """Return when everything appended so far is durable."""
        ...

    def close(self) -> None:
        """Take nothing more: the lease is given back."""
        ...


@dataclass(slots=True)
class _QueuedEntry:
    """An entry on its way into the store; None only waits for those before it."""

    entry: Entry | None
    effects: Sequence[Effect]
    waiter: asyncio.Future[None] | None


class DurableLedger:
    """A ledger over `Store.schedule` and `Store.commit`, for any store that makes commits durable.

    Entries that are appended at about the same time are committed together: the store's writer
    seals and writes them, then the waiting calls go on.
    """

    is_durable = True

    def __init__(self, store: Store, lease: Lease) -> None:
        self.lease = lease
        self._store = store
        # The last durable record, and the last sealed one: they differ until a commit is settled.
        self._head = store.head(lease.session_id)
        self._drained_head = self._head
        self._lock = threading.Lock()
        self._queue: list[_QueuedEntry] = []
        self._in_flight: list[_QueuedEntry] = []
        self._is_scheduled = False

    def append(self, entry: Entry, effects: Sequence[Effect] = ()) -> asyncio.Future[None]:
        waiter = asyncio.get_running_loop().create_future()
        self._enqueue(_QueuedEntry(entry, effects, waiter))
        return waiter

    def note(self, entry: Entry, effects: Sequence[Effect] = ()) -> None:
        self._enqueue(_QueuedEntry(entry, effects, None))

    async def flush(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._enqueue(_QueuedEntry(None, (), waiter))
        await waiter

    def close(self) -> None:
        # The store itself refuses what comes under a lease that was given back.
        return None

    def _enqueue(self, queued: _QueuedEntry) -> None:
        with self._lock:
            self._queue.append(queued)
            should_schedule = not self._is_scheduled
            self._is_scheduled = True
        if should_schedule:
            self._store.schedule(self)

    def drain(self) -> Commit:
        # Only the store's writer thread drains and settles, one after the other, so the head and
        # the entries in flight need no lock; the queue is shared with whoever appends.
        with self._lock:
            self._in_flight, self._queue = self._queue, []
            self._is_scheduled = False
        self._drained_head = self._head
        entries = [queued.entry for queued in self._in_flight if queued.entry is not None]
        records = [self._seal(entry) for entry in entries]
        effects = [effect for queued in self._in_flight for effect in queued.effects]
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
        # After a failed commit the next record follows the last one that is durable: the records
        # of the failed commit never existed, and whoever waits for them gets the error.
        if error is None:
            self._head = self._drained_head
        waiters = [queued.waiter for queued in self._in_flight if queued.waiter is not None]
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


_Sealed = tuple[str, float, str | None, bytes | None, str, str, str]
"""A record without its session and number: kind, time, call id, payload, digest, previous, hash.
A tuple, made into a `Record` only for readers: that costs more than to hash it.
"""


_ENDED: Final = ToolInvoked.kind


class MemoryRecords:
    """The records of one session, in the order in which they were appended."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        # Appending to a deque is atomic: several threads may append while another one seals.
        self.unsealed = deque[Entry]()
        self._sealed: list[_Sealed] = []
        self._sealing = threading.Lock()
        self._ends: dict[str, int] = {}
        self._ends_known = 0
        self._marks: dict[str, list[int]] = {}
        self._marks_known = 0

    def extend(self, records: Sequence[Record]) -> None:
        """Add records that were sealed elsewhere and follow the last one here."""
        with self._sealing:
            self._sealed.extend(map(_without_place, records))

    def read(
        self,
        after: int,
        *,
        before: int | None = None,
        kinds: Collection[str] | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        """Records with `after < seq < before`, of these kinds or of all. What is appended while
        they are read is not among them.
        """
        self._seal()
        sealed, session_id, first = self._sealed, self._session_id, max(after, 0)
        end = len(sealed) if before is None else min(max(before - 1, 0), len(sealed))
        names = marked(kinds)
        wanted = None if names or kinds is None else frozenset(kinds)
        if names:
            places = self._marked_places(names, first, end, newest_first=newest_first)
        else:
            places = range(end - 1, first - 1, -1) if newest_first else range(first, end)
        return (
            Record(session_id, place + 1, *sealed[place])
            for place in places
            if wanted is None or sealed[place][0] in wanted
        )

    def _marked_places(
        self, kinds: Sequence[str], first: int, end: int, *, newest_first: bool
    ) -> Iterator[int]:
        """Where the sealed records of these kinds are, in order."""
        with self._sealing:
            for place in range(self._marks_known, len(self._sealed)):
                kind = self._sealed[place][0]
                if kind in MARKED_KINDS:
                    self._marks.setdefault(kind, []).append(place)
            self._marks_known = len(self._sealed)
            of_kinds = [self._marks.get(kind, []) for kind in kinds]
        parts = [_span(places, first, end, newest_first=newest_first) for places in of_kinds]
        return heapq.merge(*parts, reverse=newest_first)

    def end_of_call(self, call_id: str) -> Record | None:
        """The record that a call of this id ended."""
        with self._sealing:
            self._find_ends()
            seq = self._ends.get(call_id)
        if seq is None:
            return None
        self._seal()
        return Record(self._session_id, seq, *self._sealed[seq - 1])

    def _find_ends(self) -> None:
        """Look at the entries that were added since the last time; they need not be sealed."""
        sealed, unsealed, known, ends = self._sealed, self.unsealed, self._ends_known, self._ends
        sealed_count = len(sealed)
        count = sealed_count + len(unsealed)
        for index in range(known, count):
            facts = sealed[index] if index < sealed_count else unsealed[index - sealed_count]
            if facts[0] == _ENDED and facts[2] is not None:
                ends[facts[2]] = index + 1
        self._ends_known = count

    def head(self) -> Head | None:
        """The end of the records."""
        self._seal()
        sealed = self._sealed
        return Head(self._session_id, len(sealed), sealed[-1][-1]) if sealed else None

    def drop_payloads(self, up_to: int) -> None:
        """Forget what the records up to this number hold; the chain stays."""
        self._seal()
        with self._sealing:
            for index, facts in enumerate(self._sealed[:up_to]):
                self._sealed[index] = (*facts[:3], None, *facts[4:])

    def _seal(self) -> None:
        session_id, unsealed, sealed = self._session_id, self.unsealed, self._sealed
        if not unsealed:
            return
        with self._sealing:
            seq = len(sealed)
            previous = sealed[-1][-1] if sealed else GENESIS
            for _ in range(len(unsealed)):
                kind, at, call_id, encode, subject = unsealed[0]
                payload = encode(subject)
                digest = sha256(payload).hexdigest()
                seq += 1
                chained = link(previous, session_id, seq, kind, at, call_id, digest)
                sealed.append((kind, at, call_id, payload, digest, previous, chained))
                # Not before: an entry that cannot be encoded must not leave a gap.
                unsealed.popleft()
                previous = chained


def _span(places: list[int], first: int, end: int, *, newest_first: bool) -> Iterator[int]:
    low, high = bisect_left(places, first), bisect_left(places, end)
    span = range(high - 1, low - 1, -1) if newest_first else range(low, high)
    return (places[index] for index in span)


class MemoryLedger:
    """Appends to records in memory; `apply` keeps the effects of an entry."""

    is_durable = False

    def __init__(
        self,
        records: MemoryRecords,
        lease: Lease,
        apply: Callable[[Lease, Sequence[Effect]], None],
    ) -> None:
        self.lease = lease
        self._unsealed = records.unsealed
        self._apply = apply
        self._is_closed = False

    def append(self, entry: Entry, effects: Sequence[Effect] = ()) -> None:
        if self._is_closed:
            raise LeaseLost(f"session {self.lease.session_id!r} was closed; open it again")
        self._unsealed.append(entry)
        if effects:
            self._apply(self.lease, effects)

    def note(self, entry: Entry, effects: Sequence[Effect] = ()) -> None:
        # Like any store's: nobody waits for what is noted, so nobody is told that it was too late.
        if not self._is_closed:
            self.append(entry, effects)

    async def flush(self) -> None:
        return None

    def close(self) -> None:
        self._is_closed = True


def _without_place(record: Record) -> _Sealed:
    return (
        record.kind,
        record.at,
        record.call_id,
        record.payload,
        record.payload_digest,
        record.previous,
        record.hash,
    )
