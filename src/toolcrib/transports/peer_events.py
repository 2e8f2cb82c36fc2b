"""The sessions that a client follows."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from toolcrib.runtime.envelope import GAP, Envelope
from toolcrib.transports.jsonrpc import notification_frame

if TYPE_CHECKING:
    from toolcrib.runtime.envelope import Reader
    from toolcrib.transports.peer_outbox import Outbox

EVENT = "event"
"""The notification that carries one envelope."""
ENDED = "events.ended"
"""The notification that there will be no more events of a session."""

_log = logging.getLogger(__name__)


class Following:
    """Sends the events of sessions to one client, each session once.

    While the client does not read, nothing is fetched for it; the reader cuts who falls too far
    behind with a gap, and the client subscribes again after the last event it saw.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, session_id: str, after: int, reader: Reader) -> None:
        """Follow a session; an earlier subscription to it ends."""
        self.end(session_id)
        task = asyncio.ensure_future(self._follow(session_id, after, reader))
        self._tasks[session_id] = task
        # Not in the task itself: one that is cancelled before it begins never runs its clean-up.
        task.add_done_callback(lambda done: self._forget(session_id, reader, done))

    def end(self, session_id: str) -> bool:
        """Stop following; False when the session was not followed."""
        task = self._tasks.pop(session_id, None)
        return task is not None and task.cancel()

    def close(self) -> None:
        """Stop following everything."""
        for session_id in list(self._tasks):
            self.end(session_id)

    def _forget(self, session_id: str, reader: Reader, done: asyncio.Task[None]) -> None:
        reader.close()
        if self._tasks.get(session_id) is done:
            del self._tasks[session_id]

    async def _follow(self, session_id: str, after: int, reader: Reader) -> None:
        seen, is_cut = after, False
        try:
            async for envelope in reader:
                await self._outbox.room()
                self._outbox.put(notification_frame(EVENT, envelope))
                seen, is_cut = envelope.seq, envelope.kind == GAP
        except Exception:
            # A client must not take silence for quiet.
            _log.exception("following the session %s failed", session_id)
            self._outbox.put(notification_frame(EVENT, _gap(session_id, seen)))
            return
        if not is_cut:
            ended: dict[str, Any] = {"session_id": session_id, "seq": seen}
            self._outbox.put(notification_frame(ENDED, ended))


def _gap(session_id: str, seen: int) -> Envelope:
    import time

    return Envelope(session_id, seen, GAP, time.time(), {}, is_kept=False)
