"""The event subscriptions of a JSON-RPC client, and the bounded queue of its frames."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

from toolcrib.runtime.event_reader import GAP, Envelope
from toolcrib.transports.jsonrpc import notification_frame

if TYPE_CHECKING:
    from toolcrib.runtime.event_reader import SessionReader


EVENT = "event"
"""The notification that carries one envelope."""
ENDED = "events.ended"
"""The notification that a session has no more events."""

_LITTLE: Final = 1_000_000

_log = logging.getLogger(__name__)


class Subscriptions:
    """Sends the events of sessions to one client, with one subscription per session.

    While the client does not read, nothing is fetched for it. If it falls too far behind, it gets
    a gap, and subscribes again after the last event it has.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, session_id: str, after: int, reader: SessionReader) -> None:
        """Subscribe to a session; an earlier subscription to it ends."""
        self.end(session_id)
        task = asyncio.ensure_future(self._follow(session_id, after, reader))
        self._tasks[session_id] = task
        # A task that is cancelled before it starts never runs its own clean-up.
        task.add_done_callback(lambda done: self._forget(session_id, reader, done))

    def end(self, session_id: str) -> bool:
        """End a subscription; False when there is none."""
        task = self._tasks.pop(session_id, None)
        return task is not None and task.cancel()

    def close(self) -> None:
        """End every subscription."""
        for session_id in list(self._tasks):
            self.end(session_id)

    def _forget(self, session_id: str, reader: SessionReader, done: asyncio.Task[None]) -> None:
        reader.close()
        if self._tasks.get(session_id) is done:
            del self._tasks[session_id]

    async def _follow(self, session_id: str, after: int, reader: SessionReader) -> None:
        seen, is_cut = after, False
        try:
            async for envelope in reader:
                await self._outbox.room()
                self._outbox.put(notification_frame(EVENT, envelope))
                seen, is_cut = envelope.seq, envelope.kind == GAP
        except Exception:
            # Without a gap the client would take the silence for a quiet session.
            _log.exception("sending the events of session %s failed", session_id)
            self._outbox.put(notification_frame(EVENT, _gap(session_id, seen)))
            return
        if not is_cut:
            ended: dict[str, Any] = {"session_id": session_id, "seq": seen}
            self._outbox.put(notification_frame(ENDED, ended))


def _gap(session_id: str, seen: int) -> Envelope:
    return Envelope(session_id, seen, GAP, time.time(), {}, is_kept=False)


class UnsentFrames:
    """How much may wait to be sent: to one client, and to all clients of a server together."""

    def __init__(self, per_client: int, in_all: int) -> None:
        self._per_client = per_client
        self._in_all = in_all
        self._total = 0

    def add(self, size: int, of_client: int) -> bool:
        """Count a frame; `of_client` is what waits for its client. False when that is too much, or
        all is too much and this client has more than a little of it.
        """
        self._total += size
        is_too_much = self._total > self._in_all and of_client > _LITTLE
        return of_client <= self._per_client and not is_too_much

    def remove(self, size: int) -> None:
        """Count a frame as sent or dropped."""
        self._total -= size


class Outbox:
    """The frames for one client, in order, until they are sent.

    `put` never blocks. A producer waits for `room` first, so a client that does not read slows its
    own producers and nothing else. Answers do not wait: with `unsent`, a client that lets too much
    of them pile up loses its frames, and `on_overflow` is called to end its connection.
    """

    def __init__(
        self,
        *,
        most_frames: int,
        most_chars: int,
        unsent: UnsentFrames | None = None,
        on_overflow: Callable[[], None] | None = None,
    ) -> None:
        self._unsent = unsent
        self._on_overflow = on_overflow
        self._bytes = 0
        self._most_frames = most_frames
        self._most_chars = most_chars
        self._frames: deque[str] = deque()
        self._chars = 0
        self._is_closed = False
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    def put(self, frame: str) -> None:
        """Add a frame. After `close` it is dropped."""
        if self._is_closed:
            return
        self._frames.append(frame)
        self._chars += len(frame)
        self._filled.set()
        if self._unsent is not None:
            self._bytes += frame.__sizeof__()
            if not self._unsent.add(frame.__sizeof__(), self._bytes):
                self._overflow()

    def _overflow(self) -> None:
        self.discard()
        self.close()
        if self._on_overflow is not None:
            self._on_overflow()

    @property
    def has_room(self) -> bool:
        """Whether the unsent frames are below the bounds."""
        return self._is_closed or (
            len(self._frames) < self._most_frames and self._chars < self._most_chars
        )

    async def room(self) -> None:
        """Wait until there is room, or the box is closed."""
        while not self.has_room:
            self._emptied.clear()
            await self._emptied.wait()

    async def frames(self) -> AsyncIterator[str]:
        """Yield the frames; ends when the box is closed and empty."""
        while True:
            while self._frames:
                frame = self._frames.popleft()
                self._chars -= len(frame)
                self._count_sent(frame.__sizeof__())
                self._emptied.set()
                yield frame
            if self._is_closed:
                return
            self._filled.clear()
            await self._filled.wait()

    def discard(self) -> None:
        """Drop the queued frames: nobody is there to read them."""
        self._frames.clear()
        self._chars = 0
        self._count_sent(self._bytes)

    def _count_sent(self, size: int) -> None:
        if self._unsent is not None:
            self._bytes -= size
            self._unsent.remove(size)

    def close(self) -> None:
        """Accept no more frames; the queued ones are still sent."""
        self._is_closed = True
        self._filled.set()
        self._emptied.set()
