"""The events of a part of a session's ledger, with the numbers of their records."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from toolcrib.ledger.events import Event, PayloadsDeleted
from toolcrib.ledger.record import deletion_end, events

if TYPE_CHECKING:
    from toolcrib.session.session import Session


def placed_events(
    session: Session,
    *,
    kinds: Collection[str],
    after: int = 0,
    before: int | None = None,
    limit: int | None = None,
) -> Iterator[tuple[int, Event]]:
    """The events between two records, newest first, or, with a `limit`, the first after `after`.

    Those whose payloads were deleted are left out. Raises `LedgerBroken` at a payload that is
    missing otherwise. May touch the disk.
    """
    # So that it writes out what it has not written yet.
    session.records(limit=0)
    records = session.store.records(
        session.session_id,
        after=after,
        before=before,
        limit=limit,
        kinds=kinds,
        newest_first=limit is None,
    )

    def deleted_up_to() -> int:
        return deletion_end(session.records(kinds=(PayloadsDeleted.kind,)))

    for record in records:
        for event in events((record,), deleted_up_to):
            yield record.seq, event
