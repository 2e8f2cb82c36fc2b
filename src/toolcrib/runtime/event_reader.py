"""Events as clients get them, in order, each once, whoever is slow."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.ledger.encoding import encode_event, rendered
from toolcrib.ledger.events import PASSING, Event, ToolInvoked
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.ledger.record import Record
    from toolcrib.session.session import Session

GAP: Final = "events.gap"
"""What a reader is told that fell too far behind: the events after `seq` are in the ledger."""

_PAGE: Final = 256
"""How many records are read at a time, so that a reader of a long ledger holds few of them."""


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


def envelope_of(record: Record) -> Envelope:
    """A record of the ledger. Deleted payloads are empty."""
    data: dict[str, Any] = json.loads(record.payload) if record.payload is not None else {}
    if record.kind == ToolInvoked.kind and record.payload is not None and "message" not in data:
        data["message"] = rendered(data.get("value"))
    if record.call_id is not None:
        data["call_id"] = record.call_id
    return Envelope(record.session_id, record.seq, record.kind, record.at, data)


class EventReader:
    """Follows one session: what happened after `after`, then what happens.

    Kept events come from the ledger, so that none is missed and none comes twice. A reader that
    has caught up and then falls `backlog` events behind is cut with a gap; it can begin again
    where it was.
    """

    def __init__(
        self,
        session: Session,
        after: int,
        backlog: int,
        *,
        on_close: Callable[[EventReader], None] | None = None,
    ) -> None:
        self._session = session
        self._seen = after
        self._backlog = backlog
        self._on_close = on_close
        # What was announced, in order: None for a kept event, which the ledger has.
        self._heard: deque[Envelope | None] = deque()
        self._guard = threading.Lock()
        self._has_caught_up = False
        self._is_cut = False
        self._is_closed = False
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = session.bus.subscribe(Event, self._hear)

    @property
    def seq(self) -> int:
        """The place of the last event that was given out; where to begin again."""
        return self._seen

    def close(self) -> None:
        """Stop following; whoever waits for the next event gets what is left, and the end."""
        self._unsubscribe()
        self._is_closed = True
        self._changed.set()
        if self._on_close is not None:
            self._on_close(self)

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        while not self._has_caught_up:
            # The ledger has what was heard so far; what is heard from now on comes after it.
            self._heard.clear()
            page = await self._page(_PAGE)
            self._has_caught_up = len(page) < _PAGE
            for record in page:
                yield self._given(record)
        while not self._is_closed:
            await self._changed.wait()
            self._changed.clear()
            async for envelope in self._news():
                yield envelope
        if not self._is_cut:
            async for envelope in self._rest():
                yield envelope

    async def _news(self) -> AsyncIterator[Envelope]:
        while not self._is_cut:
            while self._heard and not self._is_cut:
                recorded, passing = self._take()
                for record in await self._page(recorded):
                    yield self._given(record)
                if passing is not None:
                    yield replace(passing, seq=self._seen)
            # What was written down and not announced is there as well. If something was heard
            # meanwhile it may belong before what was read, so that is read again in its turn.
            page = await self._page(_PAGE)
            if self._heard or self._is_cut:
                continue
            for record in page:
                yield self._given(record)
            if len(page) < _PAGE:
                return
        session = self._session
        yield Envelope(session.session_id, self._seen, GAP, session.clock(), {}, is_kept=False)
        self.close()

    def _take(self) -> tuple[int, Envelope | None]:
        """How many kept events come next, up to the next one that is only shown."""
        count = 0
        with self._guard:
            while self._heard:
                passing = self._heard.popleft()
                if passing is not None:
                    return count, passing
                count += 1
        return count, None

    async def _rest(self) -> AsyncIterator[Envelope]:
        """All that the ledger has by now."""
        while page := await self._page(_PAGE):
            for record in page:
                yield self._given(record)

    async def _page(self, count: int) -> list[Record]:
        session, seen = self._session, self._seen
        if count == 0:
            return []
        return await ask_store(session.store, lambda: list(session.records(seen, limit=count)))

    def _given(self, record: Record) -> Envelope:
        self._seen = record.seq
        return envelope_of(record)

    def _hear(self, event: Event) -> None:
        """Called in whichever thread the event happens in."""
        passing = _shown(event) if isinstance(event, PASSING) else None
        with self._guard:
            if len(self._heard) >= self._backlog:
                # Who is still catching up misses nothing that is kept.
                self._is_cut = self._has_caught_up
                self._heard.clear()
            self._heard.append(passing)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)


def _shown(event: Event) -> Envelope:
    data = json.loads(encode_event(event))
    return Envelope(event.session_id, 0, event.kind, event.at, data, is_kept=False)
