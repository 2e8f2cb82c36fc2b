"""Events as clients get them, in order, each once, whoever is slow."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.session.encoding import encode_event, rendered
from toolcrib.session.events import Event, HostedToolProgress, TextDelta, ToolInvoked

if TYPE_CHECKING:
    from toolcrib.session.record import Record
    from toolcrib.session.session import Session

GAP: Final = "events.gap"
"""What a reader is told that fell too far behind: the events after `seq` are in the ledger."""

_PASSING: Final = (TextDelta, HostedToolProgress)
"""Events that are shown and not kept."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One event. `seq` is its place in the session's ledger; what is only shown has the place of
    the last event before it, and `is_kept` is false.
    """

    session_id: str
    seq: int
    kind: str
    at: float
    data: dict[str, Any]
    is_kept: bool = True


def kept(record: Record) -> Envelope:
    """A record of the ledger. Deleted payloads are empty."""
    data: dict[str, Any] = json.loads(record.payload) if record.payload is not None else {}
    if record.kind == ToolInvoked.kind and record.payload is not None and "message" not in data:
        data["message"] = rendered(data.get("value"))
    if record.call_id is not None:
        data["call_id"] = record.call_id
    return Envelope(record.session_id, record.seq, record.kind, record.at, data)


class Reader:
    """Follows one session: what happened after `after`, then what happens.

    Kept events come from the ledger, so that none is missed and none comes twice. A reader that
    falls `backlog` events behind is cut with a gap, and can begin again where it was.
    """

    def __init__(self, session: Session, after: int, backlog: int) -> None:
        self._session = session
        self._seen = after
        self._backlog = backlog
        self._passing: deque[Envelope] = deque()
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._unsubscribe = session.bus.subscribe(Event, self._hear)

    def close(self) -> None:
        """Stop following; whoever waits for the next event gets the end."""
        self._unsubscribe()
        self._is_closed = True
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        while True:
            self._changed.clear()
            async for envelope in self._new():
                yield envelope
            if self._is_closed:
                return
            await self._changed.wait()

    async def _new(self) -> AsyncIterator[Envelope]:
        session = self._session
        records = await session.ask_store(lambda: list(session.records(self._seen)))
        if len(records) > self._backlog and self._seen:
            yield Envelope(session.session_id, self._seen, GAP, session.clock(), {}, False)
            self.close()
            return
        for record in records:
            self._seen = record.seq
            yield kept(record)
        while self._passing:
            yield self._passing.popleft()

    def _hear(self, event: Event) -> None:
        """Called in whichever thread the event happens in."""
        if isinstance(event, _PASSING):
            data = json.loads(encode_event(event))
            passing = Envelope(
                event.session_id, self._seen, event.kind, event.at, data, is_kept=False
            )
            if len(self._passing) < self._backlog:
                self._passing.append(passing)
        self._loop.call_soon_threadsafe(self._changed.set)
