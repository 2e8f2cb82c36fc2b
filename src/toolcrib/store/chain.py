"""The rule every store keeps: a commit goes on exactly where the ledger ends."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.errors import LedgerBroken
from toolcrib.session.record import GENESIS, Head, Record


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
