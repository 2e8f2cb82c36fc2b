"""The standard streams as pipes of a protocol, read and written without blocking the loop."""

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
    """The file descriptors of a client's input and output."""

    reads: int
    writes: int

    def close(self) -> None:
        """Close both."""
        os.close(self.reads)
        os.close(self.writes)


def claim_pipes() -> Pipes:
    """Reserve stdin and stdout for the protocol. Whatever else the process prints from now on, or a
    C library or a child process of it, goes to stderr, and stdin is at its end.
    """
    sys.stdout.flush()
    pipes = Pipes(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return pipes


async def chunks(reads: int) -> AsyncIterator[bytes]:
    """Yield the incoming bytes until their end."""
    reader = _PipeReader(reads)
    try:
        while chunk := await reader.next():
            yield chunk
    finally:
        reader.stop()


class _PipeReader:
    """Reads a descriptor when it is readable and a chunk is awaited. It stays registered with the
    loop in between: registering again would double the time of a short answer.
    """

    def __init__(self, reads: int) -> None:
        self._reads = reads
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[bytes] | None = None
        self._is_watched = False

    async def next(self) -> bytes:
        """The next chunk; empty at the end."""
        if not self._is_watched:
            try:
                self._loop.add_reader(self._reads, self._on_readable)
            except PermissionError:
                # A file on disk is always ready, and cannot be waited for.
                return _read_chunk(self._reads)
            self._is_watched = True
        self._waiting = self._loop.create_future()
        return await self._waiting

    def stop(self) -> None:
        """Unregister from the loop."""
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._reads)

    def _on_readable(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or waiting.done():
            # No chunk is awaited: the bytes stay in the pipe.
            self.stop()
        else:
            waiting.set_result(_read_chunk(self._reads))


def _read_chunk(reads: int) -> bytes:
    try:
        return os.read(reads, CHUNK)
    except OSError:
        # A broken terminal or socket is a client that has disconnected.
        return b""


class PipeWriter:
    """Writes to a descriptor and waits for its reader, as long as it takes."""

    def __init__(self, writes: int) -> None:
        self._writes = writes
        mode = os.fstat(writes).st_mode
        # The mode of a terminal is shared with the shell, which expects it unchanged.
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(writes, False)

    async def write(self, data: bytes) -> None:
        """Write all bytes. Raises OSError when the reader is gone."""
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
    """Splits a stream of bytes into lines. Of a line longer than `max_bytes`, one byte more than
    that is kept, which shows that it is too long.
    """

    def __init__(self, max_bytes: int) -> None:
        self._keep = max_bytes + 1
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that these bytes complete; blank ones are left out."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for part in ended:
            self._add(part)
            lines.append(bytes(self._rest))
            self._rest.clear()
        self._add(rest)
        return [line for line in lines if line.strip()]

    def end(self) -> list[bytes]:
        """The last line of a stream that has ended without a newline."""
        left = bytes(self._rest)
        self._rest.clear()
        return [left] if left.strip() else []

    def _add(self, part: bytes) -> None:
        self._rest += part[: self._keep - len(self._rest)]
