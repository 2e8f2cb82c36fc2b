"""A ledger's records and the hash chain that ties them together.

A record's hash covers its place in the chain and the digest of its payload, not the payload
itself, so payloads can be deleted and the chain still verifies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct

from toolcrib.errors import LedgerBroken
from toolcrib.ledger.encoding import decode_event, encode_event
from toolcrib.ledger.events import Event, PayloadsDeleted

GENESIS = "0" * 64
"""The hash that precedes the first record of every session."""

# A time as it is in memory, not as text: a database gives whole seconds back as a float, and the
# hash must not tell the two apart.
_pack_place = Struct(">dQII").pack


@dataclass(frozen=True, slots=True)
class Record:
    """One sealed entry of a ledger. `payload` is None once it has been deleted."""

    session_id: str
    seq: int
    kind: str
    at: float
    call_id: str | None
    payload: bytes | None
    payload_digest: str
    previous: str
    hash: str

    @property
    def event(self) -> Event:
        """The event this record holds. Raises `LedgerBroken` when the payload was deleted."""
        if self.payload is None:
            raise LedgerBroken(f"the payload of record {self.seq} was deleted", seq=self.seq)
        return decode_event(self.kind, self.payload, self.session_id, self.at, self.call_id)


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a ledger. Kept elsewhere, it proves later that no tail was cut off."""

    session_id: str
    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.session_id} {self.seq} {self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read what `str(head)` wrote."""
        try:
            session_id, seq, digest = text.split()
            return cls(session_id, int(seq), digest)
        except ValueError:
            raise LedgerBroken(
                f"not a ledger head: {text!r}; write it as 'session seq hash', as `audit head` does"
            ) from None


def seal(event: Event, seq: int, previous: str) -> Record:
    """Turn an event into the record that follows `previous`."""
    call_id = getattr(event, "call_id", None)
    return seal_payload(
        event.session_id, event.kind, event.at, call_id, encode_event(event), seq, previous
    )


def seal_payload(
    session_id: str,
    kind: str,
    at: float,
    call_id: str | None,
    payload: bytes,
    seq: int,
    previous: str,
) -> Record:
    """Turn an encoded event into the record that follows `previous`."""
    digest = sha256(payload).hexdigest()
    chained = link(previous, session_id, seq, kind, at, call_id, digest)
    return Record(session_id, seq, kind, at, call_id, payload, digest, previous, chained)


def link(
    previous: str,
    session_id: str,
    seq: int,
    kind: str,
    at: float,
    call_id: str | None,
    payload_digest: str,
) -> str:
    """The hash of one record.

    It begins with numbers of a fixed size, two of which say how long kind and session id are; the
    two digests have a fixed length, which `verify` checks, and the call id is the rest. So a
    crafted call id cannot pass for other fields.
    """
    if call_id is None:
        text = f"{previous}{payload_digest}{kind}{session_id}"
    else:
        text = f"{previous}{payload_digest}{kind}{session_id}={call_id}"
    place = _pack_place(at, seq, len(kind), len(session_id))
    return sha256(place + text.encode("utf-8", "surrogatepass")).hexdigest()


def verify(records: Iterable[Record], head: Head | None = None) -> Head | None:
    """Check a whole chain from its first record; returns its head (None when it is empty).

    Raises `LedgerBroken` at the first edit, deletion, insertion or reorder, at a payload that is
    missing though no record says that it was deleted, and, given a `head` kept elsewhere, when the
    chain does not contain it (a cut tail or a rewritten ledger).
    """
    chain = ChainCheck(() if head is None else (head,))
    for record in records:
        chain.take(record)
    return chain.end()


class ChainCheck:
    """Checks a whole chain, record by record, against any number of heads."""

    def __init__(self, heads: Iterable[Head] = ()) -> None:
        self.missing = MissingPayloads()
        self._heads = sorted(heads, key=lambda head: head.seq)
        self._last: Record | None = None

    def take(self, record: Record) -> None:
        """Check the record that follows the last one."""
        _check_link(record, self._last)
        self.missing.take(record)
        self._last = record
        while self._heads and self._heads[0].seq == record.seq:
            _check_head(record, self._heads.pop(0))

    def end(self) -> Head | None:
        """There are no more records: the head, None when there were none."""
        last = self._last
        if self._heads:
            end = last.seq if last else 0
            raise LedgerBroken(
                f"the ledger ends at record {end}, but record {self._heads[-1].seq} once existed: "
                "its tail was cut off",
                seq=end + 1,
            )
        self.missing.check()
        return Head(last.session_id, last.seq, last.hash) if last else None


class MissingPayloads:
    """Payloads that are gone, and which of them a later record says were deleted."""

    def __init__(self) -> None:
        self.deleted = 0
        """How many are accounted for so far."""
        self.deleted_up_to = 0
        self._missing: list[Record] = []

    def take(self, record: Record) -> None:
        """Look at the next record of the ledger."""
        if record.payload is None:
            self._missing.append(record)
        elif record.kind == PayloadsDeleted.kind:
            self.deleted_up_to = max(self.deleted_up_to, _deletion_end(record))
            unaccounted = [each for each in self._missing if each.seq > self.deleted_up_to]
            self.deleted += len(self._missing) - len(unaccounted)
            self._missing = unaccounted

    def check(self) -> None:
        """After the last record: raise `LedgerBroken` at the first that nothing accounts for."""
        if self._missing:
            raise _missing_payload(self._missing[0])


def deletion_end(newest_first: Iterable[Record]) -> int:
    """Up to which record payloads were deleted, by the newest record that says so; 0 when none."""
    return max((_deletion_end(record) for record in newest_first), default=0)


def _deletion_end(record: Record) -> int:
    # One that was itself deleted is covered by a later one, which goes at least as far.
    if record.payload is None or record.kind != PayloadsDeleted.kind:
        return 0
    event = record.event
    assert isinstance(event, PayloadsDeleted)
    before = record.seq - 1
    return before if event.up_to is None else min(event.up_to, before)


def _missing_payload(record: Record) -> LedgerBroken:
    return LedgerBroken(
        f"the payload of record {record.seq} of session {record.session_id!r} is missing, and no "
        "record says that it was deleted",
        seq=record.seq,
    )


def _check_link(record: Record, last: Record | None) -> None:
    expected_seq = last.seq + 1 if last else 1
    expected_previous = last.hash if last else GENESIS
    if record.seq != expected_seq:
        raise LedgerBroken(
            f"record {expected_seq} is missing: found {record.seq} in its place", seq=expected_seq
        )
    if last is not None and record.session_id != last.session_id:
        raise LedgerBroken(f"record {record.seq} belongs to another session", seq=record.seq)
    if record.previous != expected_previous:
        raise LedgerBroken(
            f"record {record.seq} does not follow record {expected_seq - 1}", seq=record.seq
        )
    if len(record.payload_digest) != len(GENESIS):
        raise LedgerBroken(f"record {record.seq} was changed", seq=record.seq)
    if record.payload is not None:
        digest = sha256(record.payload).hexdigest()
        if digest != record.payload_digest:
            raise LedgerBroken(f"the payload of record {record.seq} was changed", seq=record.seq)
    expected = link(
        record.previous,
        record.session_id,
        record.seq,
        record.kind,
        record.at,
        record.call_id,
        record.payload_digest,
    )
    if record.hash != expected:
        raise LedgerBroken(f"record {record.seq} was changed", seq=record.seq)


def _check_head(record: Record, head: Head) -> None:
    if record.session_id != head.session_id:
        raise LedgerBroken(
            f"the head is of session {head.session_id}, the ledger of {record.session_id}",
            seq=record.seq,
        )
    if record.hash != head.hash:
        raise LedgerBroken(
            f"record {record.seq} is not the one the head was taken of: the ledger was rewritten",
            seq=record.seq,
        )


def events(records: Iterable[Record], deleted_up_to: Callable[[], int] = int) -> Iterator[Event]:
    """The events of records, without those whose payloads were deleted on purpose.

    `deleted_up_to` is called when the first payload is missing. Raises `LedgerBroken` at one that
    is missing beyond it.
    """
    end: int | None = None
    for record in records:
        if record.payload is not None:
            yield record.event
            continue
        if end is None:
            end = deleted_up_to()
        if record.seq > end:
            raise _missing_payload(record)


def check_follows(records: Sequence[Record], session_id: str, seq: int, previous: str) -> None:
    """Refuse records that do not follow record `seq` with hash `previous`, so no chain forks."""
    for record in records:
        if record.session_id != session_id:
            raise LedgerBroken(
                f"a record of session {record.session_id!r} was committed to {session_id!r}",
                seq=record.seq,
            )
        if record.seq != seq + 1 or record.previous != previous:
            raise LedgerBroken(
                f"record {record.seq} does not follow record {seq}, where the ledger of "
                f"{session_id!r} ends; open the session again",
                seq=record.seq,
            )
        seq, previous = record.seq, record.hash


def end_of(head: Head | None) -> tuple[int, str]:
    """The sequence number and hash that the next record must follow."""
    return (head.seq, head.hash) if head else (0, GENESIS)
