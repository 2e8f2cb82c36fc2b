"""A ledger's records and the hash chain that ties them together.

A record's hash covers its place in the chain and the digest of its payload, not the payload
itself, so payloads can be deleted and the chain still verifies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct

from toolcrib.errors import LedgerBroken
from toolcrib.ledger.encoding import decode_event, encode_event
from toolcrib.ledger.events import Event

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

    Raises `LedgerBroken` at the first edit, deletion, insertion or reorder, and, given a `head`
    kept elsewhere, when the chain does not contain it (a cut tail or a rewritten ledger).
    """
    last: Record | None = None
    seen_head = head is None
    for record in records:
        _check_link(record, last)
        last = record
        if head is not None and record.seq == head.seq:
            _check_head(record, head)
            seen_head = True
    if not seen_head and head is not None:
        end = last.seq if last else 0
        raise LedgerBroken(
            f"the ledger ends at record {end}, but record {head.seq} once existed: "
            "its tail was cut off",
            seq=end + 1,
        )
    return Head(last.session_id, last.seq, last.hash) if last else None


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


def events(records: Iterable[Record]) -> Iterator[Event]:
    """The events of those records whose payload is still there."""
    return (record.event for record in records if record.payload is not None)
