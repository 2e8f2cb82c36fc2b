"""The ledger of a session in memory: entries are encoded and hashed when somebody reads them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256

from toolcrib.errors import LeaseLost
from toolcrib.ledger.record import GENESIS, Head, Record, link
from toolcrib.store.ledger_writer import Entry
from toolcrib.store.store import Effect, Lease

_Sealed = tuple[str, float, str | None, bytes | None, str, str, str]
"""A record without its session and number: kind, time, call id, payload, digest, previous, hash.
A tuple, made into a `Record` only for readers: that costs more than to hash it.
"""


class MemoryRecords:
    """The records of one session, in the order in which they were appended."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        # Appending to a deque is atomic: several threads may append while another one seals.
        self.unsealed = deque[Entry]()
        self._sealed: list[_Sealed] = []
        self._sealing = threading.Lock()

    def extend(self, records: Sequence[Record]) -> None:
        """Add records that were sealed elsewhere and follow the last one here."""
        with self._sealing:
            self._sealed.extend(map(_without_place, records))

    def read(
        self, after: int, *, kinds: Collection[str] | None = None, newest_first: bool = False
    ) -> Iterator[Record]:
        """Records with `seq > after`, of these kinds or of all."""
        self._seal()
        sealed, session_id = self._sealed[after:], self._session_id
        numbered = enumerate(sealed, start=after + 1)
        return (
            Record(session_id, seq, *facts)
            for seq, facts in (reversed(list(numbered)) if newest_first else numbered)
            if kinds is None or facts[0] in kinds
        )

    def head(self) -> Head | None:
        """The end of the records."""
        self._seal()
        sealed = self._sealed
        return Head(self._session_id, len(sealed), sealed[-1][-1]) if sealed else None

    def drop_payloads(self) -> None:
        """Forget what the records hold; the chain stays."""
        self._seal()
        with self._sealing:
            for index, facts in enumerate(self._sealed):
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
