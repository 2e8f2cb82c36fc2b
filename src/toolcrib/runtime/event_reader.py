"""The events of a session as clients get them: in order, each once, also for slow readers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from toolcrib.errors import SessionNotFound
from toolcrib.ledger.encoding import encode_event, read_payload, rendered
from toolcrib.ledger.event_kinds import PASSING
from toolcrib.ledger.events import Event, ToolInvoked
from toolcrib.ledger.prompt_events import ModelAsked, ModelResponded, PartialReply
from toolcrib.runtime.messages import Events
from toolcrib.runtime.partial_reply import DELTAS, PartialReplies, RepliesNow
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.ledger.record import Record
    from toolcrib.runtime.messages import ListEvents
    from toolcrib.session.session import Session
    from toolcrib.store.store import Store

GAP: Final = "events.gap"
"""The kind of the last envelope of a reader that fell too far behind: `seq` is where to resume."""

PAGE: Final = 256
"""How many records a reader of a long ledger holds at a time."""
_PAGE_BYTES: Final = 1_000_000
"""How much of them it holds, beyond the last one, for as long as its client takes."""
_DELTAS: Final = frozenset(delta.kind for delta in DELTAS)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One event. `seq` is its sequence number in the ledger. A passing event is not in the ledger:
    `is_kept` is false and `seq` is that of the last recorded event before it.
    """

    session_id: str
    seq: int
    kind: str
    at: float
    data: dict[str, Any]
    is_kept: bool = True


def envelope_of(record: Record) -> Envelope:
    """The envelope of a record. Where the payload was deleted, the data says so and no more."""
    is_deleted = record.payload is None
    data: dict[str, Any] = (
        {"is_deleted": True} if is_deleted else read_payload(record.payload or b"")
    )
    if record.kind == ToolInvoked.kind and record.payload is not None and "message" not in data:
        data["message"] = rendered(data.get("value"))
    if record.call_id is not None:
        data["call_id"] = record.call_id
    return Envelope(record.session_id, record.seq, record.kind, record.at, data)


def event_page(
    store: Store, session: Session | None, params: ListEvents, most_bytes: int
) -> Events:
    """A page of recorded events, at least one if there is any: of a live session, or of one that
    lies in the store. May read from disk.
    """
    if session is not None:
        # So that it writes out what it has not written yet.
        session.head()
    page: list[Record] = []
    for record in store.records(
        params.session_id,
        after=params.after,
        before=params.before,
        limit=params.limit,
        newest_first=params.newest_first,
    ):
        most_bytes -= len(record.payload or b"")
        if page and most_bytes < 0:
            break
        page.append(record)
    numbers = [record.seq for record in page]
    return Events(
        events=[asdict(envelope_of(record)) for record in page],
        last_seq=max(numbers, default=params.after),
        first_seq=min(numbers, default=None),
    )


def record_page(records: Iterable[Record], count: int) -> tuple[list[Record], bool]:
    """Some of at most `count` records, no more than a reader holds at a time, and whether those
    were all.
    """
    page: list[Record] = []
    size = 0
    for record in records:
        page.append(record)
        size += len(record.payload or b"")
        if size > _PAGE_BYTES:
            return page, False
    return page, len(page) < count


class SessionReader(Protocol):
    """The events of one session after a record, then those that happen, until it is closed."""

    @property
    def seq(self) -> int:
        """The sequence number of the last recorded event that was yielded."""
        ...

    def close(self) -> None:
        """End the reader. An iteration that waits gets the remaining recorded events, and ends."""
        ...

    def __aiter__(self) -> AsyncIterator[Envelope]: ...


class EventReader:
    """Yields the events of one session after the record `after`, then those that happen.

    Recorded events are read from the ledger, so none is missed and none comes twice. In between, a
    reader gets the replies that are being written (`PartialReply`), then their further pieces.

    One that has caught up and then falls `backlog` events behind ends with a `GAP` envelope; a new
    reader can resume at `seq`.
    """

    def __init__(
        self,
        session: Session,
        after: int,
        backlog: int,
        *,
        partial_replies: PartialReplies | None = None,
        on_close: Callable[[EventReader], None] | None = None,
        keeps_open: bool = True,
    ) -> None:
        self.keeps_open = keeps_open
        """Whether an idle session stays open for it."""
        self.is_over = False
        """Whether it ended because somebody closed or deleted the session, rather than because the
        session was let go."""
        self._session = session
        self._partial_replies = partial_replies or PartialReplies()
        self._replies = RepliesNow()
        """The replies that it began with."""
        self._responded: dict[int, int] = {}
        """The last step of each turn whose reply it has yielded from the ledger."""
        self._last_seq = after
        self._backlog = backlog
        self._on_close = on_close
        # The announced events in order; None stands for a recorded one, which the ledger has.
        self._announced: deque[Envelope | None] = deque()
        self._images: dict[str, Envelope] = {}
        """The last unread event with a partial image of each call."""
        self._guard = threading.Lock()
        self._has_caught_up = False
        self._is_cut = False
        self._has_sent_gap = False
        self._is_closed = False
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = session.bus.subscribe(Event, self._on_event)

    @property
    def seq(self) -> int:
        """The sequence number of the last recorded event that was yielded."""
        return self._last_seq

    def close(self) -> None:
        """End the reader. An iteration that waits gets the remaining recorded events, and ends."""
        self._unsubscribe()
        self._is_closed = True
        self._changed.set()
        if self._on_close is not None:
            self._on_close(self)

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        while not self._has_caught_up:
            # The ledger has every event announced so far; later ones come after it.
            self._announced.clear()
            page, self._has_caught_up = await self._page(PAGE)
            for record in page:
                yield self._yielded(record)
        self._announce_replies()
        while not self._is_closed:
            await self._changed.wait()
            self._changed.clear()
            async for envelope in self._new_events():
                yield envelope
        if not self._has_sent_gap:
            async for envelope in self._remaining():
                yield envelope

    async def _new_events(self) -> AsyncIterator[Envelope]:
        while not self._is_cut:
            while self._announced and not self._is_cut:
                recorded, passing = self._take()
                is_last = False
                while recorded > 0 and not is_last:
                    page, is_last = await self._page(recorded)
                    recorded -= len(page)
                    for record in page:
                        yield self._yielded(record)
                if passing is not None and not self._is_over(passing):
                    yield replace(passing, seq=self._last_seq)
            # Records that were never announced are in the ledger too. An event announced during the
            # read may belong before them, so they are read again in their turn.
            page, is_last = await self._page(PAGE)
            if self._announced or self._is_cut:
                continue
            for record in page:
                yield self._yielded(record)
            if is_last:
                return
        session, self._has_sent_gap = self._session, True
        yield Envelope(session.session_id, self._last_seq, GAP, session.clock(), {}, is_kept=False)
        self.close()

    def _announce_replies(self) -> None:
        """Put the replies that are being written in the place of their pieces up to now. One that
        was announced from its start needs none.
        """
        with self._guard:
            passing = [each for each in self._announced if each is not None]
            begun = {_step(each) for each in passing if each.kind == ModelAsked.kind}
            self._replies = self._partial_replies.now().without(begun)
            steps = {(reply.turn, reply.step) for reply in self._replies.replies}
            if not steps:
                return
            kept = [
                each
                for each in self._announced
                if each is None or each.kind not in _DELTAS or _step(each) not in steps
            ]
            self._announced.clear()
            self._announced.extend([*kept, *map(_passing, self._replies.replies)])
        self._changed.set()

    def _is_over(self, passing: Envelope) -> bool:
        """Whether this is a partial reply whose whole was in the ledger before it was announced."""
        if passing.kind != PartialReply.kind:
            return False
        turn, step = _step(passing)
        return self._responded.get(turn, -1) >= step

    def _take(self) -> tuple[int, Envelope | None]:
        """How many recorded events come next, up to the next passing one, and that one."""
        count = 0
        with self._guard:
            while self._announced:
                passing = self._announced.popleft()
                if passing is not None:
                    self._forget_image(passing)
                    return count, passing
                count += 1
        return count, None

    async def _remaining(self) -> AsyncIterator[Envelope]:
        """All further records of the ledger."""
        is_last = False
        while not is_last:
            page, is_last = await self._page(PAGE)
            for record in page:
                yield self._yielded(record)

    async def _page(self, count: int) -> tuple[list[Record], bool]:
        """The next records, and whether the ledger has no more of them."""
        session, seen = self._session, self._last_seq
        try:
            return await ask_store(
                session.store, lambda: record_page(session.records(seen, limit=count), count)
            )
        except SessionNotFound:
            # It was deleted, here or by another process: there is nothing left to read.
            self.close()
            return [], True

    def _yielded(self, record: Record) -> Envelope:
        self._last_seq = record.seq
        envelope = envelope_of(record)
        # A deleted payload does not say its turn; it is of none that is being written.
        if record.kind == ModelResponded.kind and record.payload is not None:
            turn, step = _step(envelope)
            self._responded[turn] = step
        return envelope

    def _on_event(self, event: Event) -> None:
        """Called in the thread of the event."""
        passing = _passing(event) if isinstance(event, PASSING) else None
        with self._guard:
            if passing is not None and self._replies.holds(event):
                return
            if len(self._announced) >= self._backlog:
                # A reader that has not caught up reads the ledger and misses no record.
                self._is_cut = self._has_caught_up
                self._announced.clear()
                self._images.clear()
            if passing is not None and passing.data.get("image"):
                self._drop_image(passing)
            self._announced.append(passing)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)

    def _forget_image(self, taken: Envelope) -> None:
        if taken.data.get("image") and self._images.get(taken.data["call_id"]) is taken:
            del self._images[taken.data["call_id"]]

    def _drop_image(self, newer: Envelope) -> None:
        """Pictures are large: a reader that is behind gets the last of each call alone."""
        older = self._images.get(newer.data["call_id"])
        if older is not None:
            older.data["image"] = None
        self._images[newer.data["call_id"]] = newer


def _step(envelope: Envelope) -> tuple[int, int]:
    """The turn and the step of an event about a reply."""
    return envelope.data["turn"], envelope.data["step"]


def _passing(event: Event) -> Envelope:
    data = json.loads(encode_event(event))
    call_id = getattr(event, "call_id", None)
    if call_id is not None:
        data["call_id"] = call_id
    return Envelope(event.session_id, 0, event.kind, event.at, data, is_kept=False)
