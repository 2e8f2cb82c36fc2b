"""Frames on their way to a client, bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator


class Outbox:
    """Holds frames in order until they are sent.

    A frame that is put is always taken. Whoever makes frames waits for `room` first, so a client
    that does not read stops what is made for it, and not the process.
    """

    def __init__(self, *, most_frames: int, most_chars: int) -> None:
        self._most_frames = most_frames
        self._most_chars = most_chars
        self._frames: deque[str] = deque()
        self._chars = 0
        self._is_closed = False
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    def put(self, frame: str) -> None:
        """Add a frame. After `close` there is nobody to send it to."""
        if self._is_closed:
            return
        self._frames.append(frame)
        self._chars += len(frame)
        self._filled.set()

    @property
    def has_room(self) -> bool:
        """Whether what waits to be sent is below the bounds."""
        return self._is_closed or (
            len(self._frames) < self._most_frames and self._chars < self._most_chars
        )

    async def room(self) -> None:
        """Wait until the client has read enough, or is gone."""
        while not self.has_room:
            self._emptied.clear()
            await self._emptied.wait()

    async def frames(self) -> AsyncIterator[str]:
        """The frames as they come; ends when the box is closed and empty."""
        while True:
            while self._frames:
                frame = self._frames.popleft()
                self._chars -= len(frame)
                self._emptied.set()
                yield frame
            if self._is_closed:
                return
            self._filled.clear()
            await self._filled.wait()

    def close(self) -> None:
        """Take no more; what is there is still sent."""
        self._is_closed = True
        self._filled.set()
        self._emptied.set()
