"""A sandboxed command while it runs: the open process, and the guard that enforces its limits."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final

from toolcrib.errors import SandboxFailed
from toolcrib.sandbox.command import CommandResult, KilledBy
from toolcrib.sandbox.process_tree import memory_in_use

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from toolcrib.sandbox.command import BackendName, SandboxLimits
    from toolcrib.sandbox.process_tree import ProcessTree
    from toolcrib.sandbox.streams import CapturedOutput
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
        await self._stderr.closed()
        rest = await self.stdout.read()
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
        with suppress(ConnectionError):
            await self.close()


MEASURE_SECONDS: Final = 0.1
"""The interval between two measurements of memory and disk; longer where measuring is slow."""


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
        measuring = asyncio.create_task(self._measure())
        try:
            return await self._tree.wait()
        finally:
            measuring.cancel()
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

    async def _measure(self) -> None:
        while True:
            started_at = time.monotonic()
            limit = await asyncio.to_thread(self._exceeded_limit)
            if limit is not None:
                self.kill(limit)
                return
            duration = time.monotonic() - started_at
            await asyncio.sleep(max(MEASURE_SECONDS, 10 * duration))

    def _exceeded_limit(self) -> KilledBy | None:
        memory = self._limits.memory_bytes
        if memory_in_use(self._tree.pid, memory) > memory:
            return "memory"
        if self._work.used_bytes() > self._limits.work_bytes:
            return "disk"
        return None
