"""The events of a session of a shared store, wherever it is open: from the ledger, from the replica
that has it open, and from this one when it is open here. Following a session does not open it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import SessionNotFound
from toolcrib.runtime.event_reader import GAP, PAGE, Envelope, envelope_of, record_page
from toolcrib.runtime.place_watch import PlaceWatch
from toolcrib.runtime.remote_stream import RemoteStream
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.runtime.event_reader import EventReader
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.remote_stream import ReplicaEvents
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.store.shared_store import Replica, SharedStore

_log = logging.getLogger(__name__)

REST_SECONDS: Final = 2.0
"""How long a reader that is closed waits for what another replica has yet to send."""


class SharedEvents:
    """Makes the readers of one runtime on a shared store."""

    def __init__(self, store: SharedStore, sessions: LiveSessions, backlog: int) -> None:
        self.store = store
        self.sessions = sessions
        self.backlog = backlog
        self.watch = PlaceWatch(store)
        self.elsewhere: ReplicaEvents | None = None
        """How other replicas are reached; without it, what happens there comes from the ledger."""
        self._readers: set[SharedReader] = set()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._is_closed = False

    def follow(self, session_id: str, after: int) -> SharedReader:
        """A reader of the events after a record. The caller closes it."""
        reader = SharedReader(self, session_id, after, self._readers.discard)
        self._readers.add(reader)
        if self._is_closed:
            reader.close()
        return reader

    def held(self, session_id: str, after: int) -> EventReader | None:
        """A reader of a session for another replica; None when it is not open here."""
        live = self.sessions.find(session_id)
        return None if live is None else live.follow(after, self.backlog, keeps_open=False)

    def note_task(self, task: asyncio.Future[Any]) -> None:
        """Have closing wait for a task of a reader."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End every reader."""
        self._is_closed = True
        for reader in tuple(self._readers):
            reader.close()
        for task in (tasks := tuple(self._tasks)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.watch.close()
        if self.elsewhere is not None:
            await self.elsewhere.aclose()


class SharedReader:
    """Yields the events of one session, each recorded one once and in order, until it is closed, or
    somebody closes the session where it is open, or deletes it.

    While the session is open at a replica, the events that are not recorded come too. A reader of a
    session that is open here ends with a `GAP` envelope when it falls too far behind; one that
    falls behind another replica reads the ledger instead.
    """

    def __init__(
        self,
        shared: SharedEvents,
        session_id: str,
        after: int,
        on_close: Callable[[SharedReader], None],
    ) -> None:
        self._shared = shared
        self._session_id = session_id
        self._last_seq: int = after
        self._on_close = on_close
        self._is_closed = False
        self._is_over = False
        self._number: int | None = None
        """Which session it is, once that is known."""
        self._tried_at = 0
        """The look after which the holder was last found not to send more."""
        self._changed = asyncio.Event()
        self._local: EventReader | None = None
        self._remote: RemoteStream | None = None
        self._watched = shared.watch.watch(session_id, self._changed.set)

    @property
    def seq(self) -> int:
        """The sequence number of the last recorded event that was yielded."""
        return self._last_seq

    def close(self) -> None:
        """End the reader. An iteration that waits gets the remaining recorded events, and ends."""
        if self._is_closed:
            return
        self._is_closed = True
        self._watched.close()
        self._changed.set()
        if self._local is not None:
            self._local.close()
        if self._remote is not None:
            # Also when nobody iterates any more.
            asyncio.get_running_loop().call_later(REST_SECONDS, self._remote.stop)
        self._on_close(self)

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        events, ended = self._recorded(), None
        while not self._is_over:
            async with aclosing(events):
                async for envelope in events:
                    yield envelope
            if self._is_closed or self._is_over:
                return
            self._changed.clear()
            live, holder = self._shared.sessions.find(self._session_id), self._holder()
            if live is not None and live is not ended:
                events, ended = self._here(live), live
            elif holder is not None and self._shared.elsewhere is not None:
                events = self._elsewhere(holder, self._shared.elsewhere)
            else:
                if not self._has_more():
                    await self._changed.wait()
                self._is_over = self._is_over or self._is_gone()
                events = self._recorded() if self._has_more() or self._is_closed else _nothing()

    def _has_more(self) -> bool:
        """Whether the ledger has more, as far as the last look knows."""
        place = self._watched.place
        return place is not None and place.last_seq > self._last_seq

    def _is_gone(self) -> bool:
        """Whether the session was deleted, as far as the last look knows."""
        place = self._watched.place
        if place is None:
            return self._watched.looks > 0
        self._number = place.number if self._number is None else self._number
        return place.number != self._number

    def _holder(self) -> Replica | None:
        """The replica to follow the session at. One that ended or failed is tried again after the
        next look.
        """
        place = self._watched.place
        holder = None if place is None else place.holder
        if (
            holder is None
            or holder.address is None
            or holder.replica_id == self._shared.store.replica_id
        ):
            self._watched.is_restless = False
            return None
        return holder if self._watched.looks > self._tried_at else None

    async def _recorded(self) -> AsyncGenerator[Envelope]:
        """All further records of the ledger."""
        store, is_last = self._shared.store, False

        def read(seen: int) -> tuple[list[Envelope], bool]:
            records = store.records(self._session_id, after=seen, limit=PAGE)
            page, is_all = record_page(records, PAGE)
            return [envelope_of(record) for record in page], is_all

        while not is_last:
            try:
                page, is_last = await ask_store(store, read, self._last_seq)
            except SessionNotFound:
                self._is_over = True
                return
            for envelope in page:
                self._last_seq = envelope.seq
                yield envelope

    async def _here(self, live: LiveSession) -> AsyncGenerator[Envelope]:
        """The events while the session is open here, then those that its end has left."""
        reader = live.follow(self._last_seq, self._shared.backlog, keeps_open=False)
        self._local = reader
        try:
            async for envelope in reader:
                self._last_seq = max(self._last_seq, envelope.seq)
                yield envelope
                if envelope.kind == GAP:
                    self._is_over = True
                    return
        except Exception:
            # The lease was lost, and what was not written out is lost with it.
            _log.warning("session %s cannot be read here any more", self._session_id, exc_info=True)
        finally:
            self._local = None
            reader.close()
        self._is_over = reader.is_over
        async for envelope in self._recorded():
            yield envelope

    async def _elsewhere(
        self, holder: Replica, replicas: ReplicaEvents
    ) -> AsyncGenerator[Envelope]:
        """The events while the session is open at another replica, then those that the ledger has
        beyond what that one has sent.
        """
        portions = replicas.follow(holder, self._session_id, self._last_seq)
        feed = self._remote = RemoteStream(portions, self._changed.set)
        self._shared.note_task(feed.task)
        has_gap = False
        try:
            while not feed.is_done and not has_gap:
                for envelope in feed.take():
                    if not envelope.is_kept and envelope.kind != GAP:
                        yield replace(envelope, seq=self._last_seq)
                    elif envelope.kind == GAP or envelope.seq > self._last_seq + 1:
                        has_gap = True
                        break
                    elif envelope.seq == self._last_seq + 1:
                        self._last_seq = envelope.seq
                        yield envelope
                if has_gap or await self._is_done_with(holder):
                    break
                if not feed.is_done:
                    await self._changed.wait()
                    self._changed.clear()
        finally:
            self._remote = None
            feed.stop()
        if feed.is_done:
            self._tried_at, self._watched.is_restless = self._watched.looks, True
        self._is_over = feed.end == "over"
        async for envelope in self._recorded():
            yield envelope

    async def _is_done_with(self, holder: Replica) -> bool:
        """Whether a holder need not be followed any more: the session is open here or at another
        one or is deleted, or this reader is closed and has all that is recorded.
        """
        if self._is_closed:
            return self._last_seq >= await self._head()
        if self._shared.sessions.find(self._session_id) is not None or self._is_gone():
            return True
        place = self._watched.place
        now = None if place is None else place.holder
        return now is not None and now.replica_id != holder.replica_id

    async def _head(self) -> int:
        store = self._shared.store
        try:
            head = await ask_store(store, store.head, self._session_id)
        except SessionNotFound:
            return 0
        return 0 if head is None else head.seq


async def _nothing() -> AsyncGenerator[Envelope]:
    return
    yield
