"""The events of a session that is open at another replica, as that one sends them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from toolcrib.runtime.event_reader import Envelope
    from toolcrib.store.shared_store import Replica

_log = logging.getLogger(__name__)

StreamEnd = Literal["ended", "over"]
"""Whether the replica has no more to send, or somebody closed or deleted the session there."""


class ReplicaEvents(Protocol):
    """The events of sessions that are open at other replicas."""

    def follow(
        self, holder: Replica, session_id: str, after: int
    ) -> AsyncGenerator[Sequence[Envelope] | StreamEnd]:
        """The events of a session after a record, as they come, recorded and passing ones; last why
        there are no more. Raises when the replica does not answer, or does not have it open.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class RemoteStream:
    """Reads the events of another replica in a task, one portion ahead. A follower that does not
    read holds the other replica back, which then ends with a gap.
    """

    def __init__(
        self,
        portions: AsyncGenerator[Sequence[Envelope] | StreamEnd],
        on_change: Callable[[], None],
    ) -> None:
        self.end: StreamEnd | None = None
        """Why it ended; None when it failed or was stopped."""
        self._portions = portions
        self._on_change = on_change
        self._unread: deque[Envelope] = deque()
        self._is_read = asyncio.Event()
        self.task = asyncio.ensure_future(self._read())
        self.task.add_done_callback(lambda _: on_change())

    @property
    def is_done(self) -> bool:
        """Whether all there is was taken."""
        return self.task.done() and not self._unread

    def take(self) -> Iterator[Envelope]:
        """The events that have come, in order."""
        while self._unread:
            yield self._unread.popleft()
        self._is_read.set()

    def stop(self) -> None:
        """Follow the other replica no longer."""
        self.task.cancel()

    async def _read(self) -> None:
        try:
            async with aclosing(self._portions) as portions:
                async for portion in portions:
                    if isinstance(portion, str):
                        self.end = portion
                        return
                    self._unread.extend(portion)
                    self._is_read.clear()
                    self._on_change()
                    await self._is_read.wait()
        except Exception as error:
            # Nothing is lost: whoever follows reads the ledger on, and looks for the holder again.
            _log.debug("the events of another replica ended: %r", error)
