"""The standard streams, taken for a protocol, and read and written without blocking the loop.

Bytes cut into lines.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Pipes:
    """Where a client's bytes come from and where ours go, as file descriptors."""

    reads: int
    writes: int

    def close(self) -> None:
        """Let go of both."""
        os.close(self.reads)
        os.close(self.writes)


def claim_pipes() -> Pipes:
    """Take stdin and stdout for the protocol alone. What anything else prints from now on, a
    library in C or a process that a tool starts included, goes to stderr; who reads stdin finds its
    end.
    """
    sys.stdout.flush()
    pipes = Pipes(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return pipes


async def chunks(reads: int) -> AsyncIterator[bytes]:
    """The bytes that come, until their end."""
    arriving = _Arriving(reads)
    try:
        while chunk := await arriving.next():
            yield chunk
    finally:
        arriving.stop()


class _Arriving:
    """Reads a descriptor when there is something on it and somebody waits for it. It stays watched
    in between, which is half the time of a short answer.
    """

    def __init__(self, reads: int) -> None:
        self._reads = reads
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[bytes] | None = None
        self._is_watched = False

    async def next(self) -> bytes:
        """What comes next; nothing at the end."""
        if not self._is_watched:
            try:
                self._loop.add_reader(self._reads, self._arrived)
            except PermissionError:
                # A file on disk is always ready, and cannot be waited for.
                return _taken(self._reads)
            self._is_watched = True
        self._waiting = self._loop.create_future()
        return await self._waiting

    def stop(self) -> None:
        """Watch no more."""
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._reads)

    def _arrived(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or waiting.done():
            # Whoever takes it is behind; until then it stays where it is.
            self.stop()
        else:
            waiting.set_result(_taken(self._reads))


def _taken(reads: int) -> bytes:
    try:
        return os.read(reads, CHUNK)
    except OSError:
        # A terminal or a socket that broke is a client that left.
        return b""


class PipeWriter:
    """Writes to a descriptor, waiting for the other side as long as it takes."""

    def __init__(self, writes: int) -> None:
        self._writes = writes
        mode = os.fstat(writes).st_mode
        # A terminal's mode is shared with the shell that it goes back to.
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(writes, False)

    async def write(self, data: bytes) -> None:
        """Write all of it. Raises OSError when nobody reads any more."""
        loop = asyncio.get_running_loop()
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._writes, left) :]
            except BlockingIOError:
                await _ready(self._writes, loop.add_writer, loop.remove_writer)


async def _ready(descriptor: int, add: Callable[..., Any], remove: Callable[[int], bool]) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    try:
        add(descriptor, _settle, ready)
    except PermissionError:
        # A file on disk is always ready, and cannot be waited for.
        return
    try:
        await ready
    finally:
        remove(descriptor)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class Lines:
    """Gives the lines of a stream of bytes. Of a line longer than `most_bytes` only so much is kept
    as shows that it is too long.
    """

    def __init__(self, most_bytes: int) -> None:
        self._keep = most_bytes + 1
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that these bytes end; blank ones are left out."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for part in ended:
            self._add(part)
            lines.append(bytes(self._rest))
            self._rest.clear()
        self._add(rest)
        return [line for line in lines if line.strip()]

    def end(self) -> list[bytes]:
        """What is left when the stream is over."""
        left = bytes(self._rest)
        self._rest.clear()
        return [left] if left.strip() else []

    def _add(self, part: bytes) -> None:
        self._rest += part[: self._keep - len(self._rest)]
