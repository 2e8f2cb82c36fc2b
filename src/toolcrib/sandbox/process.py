"""A sandboxed command while it runs: the open process, its pipes to this program, and the guard
that enforces its limits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final

from toolcrib.errors import SandboxFailed
from toolcrib.sandbox.command import CommandResult, KilledBy
from toolcrib.sandbox.process_tree import memory_in_use
from toolcrib.sandbox.work_directory import DiskUsage

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from toolcrib.sandbox.command import BackendName, SandboxLimits
    from toolcrib.sandbox.process_tree import ProcessTree
    from toolcrib.sandbox.work_directory import WorkDirectory


class Process:
    """A command that stays open. Leaving `async with` kills it with all its processes.

    The caller reads `stdout`; a command that writes faster has to wait. The beginning of `stderr`
    is kept for `CommandResult`.
    """

    def __init__(
        self,
        guard: LimitGuard,
        *,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: CapturedOutput,
        work: WorkDirectory,
        work_at: PurePosixPath,
        backend: BackendName,
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.work = work
        self.work_at = work_at
        """Where the command sees its work directory."""
        self.backend: BackendName = backend
        self._stderr = stderr
        self._guard = guard
        self._end = asyncio.create_task(guard.wait())

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return not self._end.done()

    @property
    def stderr(self) -> bytes:
        """The output on stderr so far."""
        return self._stderr.data

    async def send(self, data: bytes) -> None:
        """Write to its stdin. Raises `BrokenPipeError` or `ConnectionResetError` when it no longer
        reads.
        """
        self.stdin.write(data)
        await self.stdin.drain()

    def kill(self, reason: KilledBy = "closed") -> None:
        """Kill it with all its processes; for a time limit of the caller, the reason is
        `wall_clock`.
        """
        if self.is_alive:
            self._guard.kill(reason)

    async def wait(self) -> CommandResult:
        """Wait for its end. The `stdout` of the result is what the caller has not read."""
        code = await asyncio.shield(self._end)
        try:
            await self._stderr.closed()
            rest = await self.stdout.read()
        finally:
            self.stdin.close()
        return self._guard.result(code, rest, self._stderr.data, self.backend)

    async def close(self) -> CommandResult:
        """Kill it and wait for its end."""
        self.kill()
        return await self.wait()

    async def __aenter__(self) -> Process:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            with suppress(ConnectionError):
                await self.close()
        finally:
            # Also when waiting for its end is cancelled.
            self.stdin.close()


MEASURE_SECONDS: Final = 0.1
"""The interval between two looks at the memory, and between two looks at the disk."""


class LimitGuard:
    """Enforces the limits that the kernel does not: wall clock, output, memory of all processes
    together, and disk.
    """

    def __init__(self, tree: ProcessTree, work: WorkDirectory, limits: SandboxLimits) -> None:
        self.killed_by: KilledBy | None = None
        self._tree = tree
        self._work = work
        self._limits = limits
        self._started_at = time.monotonic()

    def kill(self, reason: KilledBy) -> None:
        """Kill the command; the first reason counts."""
        self.killed_by = self.killed_by or reason
        self._tree.kill()

    async def wait(self) -> int:
        """Enforce the limits until no process is left; returns the exit code."""
        loop = asyncio.get_running_loop()
        seconds = self._limits.seconds
        timer = None if seconds is None else loop.call_later(seconds, self.kill, "wall_clock")
        disk = DiskUsage(self._work, self._tree.pid)
        looks: list[tuple[KilledBy, Callable[[], bool]]] = [
            ("memory", self._exceeds_memory),
            ("disk", lambda: disk.exceeds(self._limits.work_bytes)),
        ]
        # Side by side: a slow look at one of them must not delay the other.
        watches = [asyncio.create_task(self._watch(limit, look)) for limit, look in looks]
        try:
            return await self._tree.wait()
        finally:
            for watch in watches:
                watch.cancel()
            if timer is not None:
                timer.cancel()

    def result(self, code: int, out: bytes, err: bytes, backend: BackendName) -> CommandResult:
        """The result of the command. Raises `SandboxFailed` when it was never started."""
        killed_by = self.killed_by
        if killed_by is None and not self._tree.command_started:
            message = err.decode(errors="replace").strip()
            raise SandboxFailed(f"the sandbox could not be created: {message}")
        if killed_by is None and code == 128 + signal.SIGXCPU:
            killed_by = "cpu"
        return CommandResult(
            exit_code=code,
            stdout=out,
            stderr=err,
            killed_by=killed_by,
            backend=backend,
            duration_seconds=time.monotonic() - self._started_at,
        )

    async def _watch(self, limit: KilledBy, is_exceeded: Callable[[], bool]) -> None:
        while True:
            if await asyncio.to_thread(is_exceeded):
                self.kill(limit)
                return
            await asyncio.sleep(MEASURE_SECONDS)

    def _exceeds_memory(self) -> bool:
        memory = self._limits.memory_bytes
        return memory_in_use(self._tree.pid, memory) > memory


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
    with _closed_on_error(theirs):
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
    with _closed_on_error(theirs):
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: PipeReaderProtocol(reader), os.fdopen(ours, "rb", 0)
        )
    return theirs, reader


async def writer_pipe(owner: int | None) -> tuple[int, asyncio.StreamWriter]:
    """A descriptor to read from, and a writer to it."""
    theirs, ours = _pipe(owner)
    loop = asyncio.get_running_loop()
    with _closed_on_error(theirs):
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(ours, "wb", 0)
        )
    return theirs, asyncio.StreamWriter(transport, protocol, None, loop)


@contextmanager
def _closed_on_error(descriptor: int) -> Generator[None]:
    try:
        yield
    except BaseException:
        os.close(descriptor)
        raise


def _pipe(owner: int | None) -> tuple[int, int]:
    """The two ends of a pipe that the command may also open by name (`/dev/stderr`)."""
    ends = os.pipe2(os.O_CLOEXEC)
    if owner is not None:
        os.fchown(ends[0], owner, owner)
    return ends
