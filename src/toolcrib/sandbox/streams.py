"""The pipes between this program and a sandboxed command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


class CapturedOutput(asyncio.Protocol):
    """Keeps output up to a limit. Past the limit it calls `on_full` once and drops the rest."""

    def __init__(self, limit: int) -> None:
        self.on_full: Callable[[], None] | None = None
        self._limit = limit
        self._data = bytearray()
        self._is_full = False
        self._closed = asyncio.get_running_loop().create_future()

    @property
    def data(self) -> bytes:
        """The output so far, up to the limit."""
        return bytes(self._data)

    def data_received(self, data: bytes) -> None:
        room = self._limit - len(self._data)
        self._data += data[:room]
        if len(data) > room and not self._is_full:
            self._is_full = True
            if self.on_full is not None:
                self.on_full()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    async def closed(self) -> None:
        """Wait until all writers have closed the pipe."""
        await self._closed


async def captured_pipe(limit: int, owner: int | None) -> tuple[int, CapturedOutput]:
    """A descriptor to write to, and the output that is captured from it."""
    ours, theirs = _pipe(owner)
    loop = asyncio.get_running_loop()
    _, output = await loop.connect_read_pipe(
        lambda: CapturedOutput(limit), os.fdopen(ours, "rb", 0)
    )
    return theirs, output


class PipeReaderProtocol(asyncio.StreamReaderProtocol):
    """Feeds a reader, and closes the pipe at its end on any event loop."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


async def reader_pipe(limit: int, owner: int | None) -> tuple[int, asyncio.StreamReader]:
    """A descriptor to write to, and a reader of it; a faster writer has to wait."""
    ours, theirs = _pipe(owner)
    reader = asyncio.StreamReader(limit)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: PipeReaderProtocol(reader), os.fdopen(ours, "rb", 0)
    )
    return theirs, reader


async def writer_pipe(owner: int | None) -> tuple[int, asyncio.StreamWriter]:
    """A descriptor to read from, and a writer to it."""
    theirs, ours = _pipe(owner)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(ours, "wb", 0)
    )
    return theirs, asyncio.StreamWriter(transport, protocol, None, loop)


def _pipe(owner: int | None) -> tuple[int, int]:
    """The two ends of a pipe that the command may also open by name (`/dev/stderr`)."""
    ends = os.pipe2(os.O_CLOEXEC)
    if owner is not None:
        os.fchown(ends[0], owner, owner)
    return ends
