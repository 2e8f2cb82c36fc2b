"""A confined command that is kept open and spoken with.

A confined command while it runs: watched, and ended at the first limit that it reaches.
"""

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
    """A command that lives between calls. Leaving `async with` ends it and all that it started.

    `stdout` is for the caller to read; a command that writes faster has to wait. Of `stderr` the
    beginning is kept, for `CommandResult`.
    """

    def __init__(
        self,
        running: LimitGuard,
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
        self._running = running
        self._ended = asyncio.create_task(running.ended())

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended.done()

    @property
    def stderr(self) -> bytes:
        """What it has written to stderr so far."""
        return self._stderr.data

    async def send(self, data: bytes) -> None:
        """Write to its stdin. Raises `BrokenPipeError` or `ConnectionResetError` when it reads no
        more.
        """
        self.stdin.write(data)
        await self.stdin.drain()

    def kill(self, why: KilledBy = "closed") -> None:
        """End it and all that it started; a caller's own limit on time is `wall_clock`."""
        if self.is_alive:
            self._running.kill(why)

    async def wait(self) -> CommandResult:
        """Wait for its end. Stdout is the caller's: `CommandResult` holds what nobody read."""
        code = await asyncio.shield(self._ended)
        await self._stderr.closed()
        rest = await self.stdout.read()
        self.stdin.close()
        return self._running.finished(code, rest, self._stderr.data, self.backend)

    async def close(self) -> CommandResult:
        """End it now."""
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


WATCH_SECONDS: Final = 0.1
"""How often memory and disk are looked at; less often where looking takes long."""


class LimitGuard:
    """The limits of one command that no kernel keeps: wall clock, output, memory of all processes
    together, and disk.
    """

    def __init__(self, tree: ProcessTree, work: WorkDirectory, limits: SandboxLimits) -> None:
        self.killed_by: KilledBy | None = None
        self._tree = tree
        self._work = work
        self._limits = limits
        self._began = time.monotonic()

    def kill(self, why: KilledBy) -> None:
        """End it; the first reason counts."""
        self.killed_by = self.killed_by or why
        self._tree.kill()

    async def ended(self) -> int:
        """Wait until no process is left, and see to it that the limits hold until then."""
        loop = asyncio.get_running_loop()
        seconds = self._limits.seconds
        clock = None if seconds is None else loop.call_later(seconds, self.kill, "wall_clock")
        watch = asyncio.create_task(self._watch())
        try:
            return await self._tree.ended()
        finally:
            watch.cancel()
            if clock is not None:
                clock.cancel()

    def finished(self, code: int, out: bytes, err: bytes, backend: BackendName) -> CommandResult:
        """The end as a fact. Raises `SandboxFailed` when the command was never started."""
        killed_by = self.killed_by
        if killed_by is None and not self._tree.has_begun:
            told = err.decode(errors="replace").strip()
            raise SandboxFailed(f"the sandbox could not be made: {told}")
        if killed_by is None and code == 128 + signal.SIGXCPU:
            killed_by = "cpu"
        return CommandResult(
            exit_code=code,
            stdout=out,
            stderr=err,
            killed_by=killed_by,
            backend=backend,
            duration_seconds=time.monotonic() - self._began,
        )

    async def _watch(self) -> None:
        while True:
            began = time.monotonic()
            why = await asyncio.to_thread(self._passed)
            if why is not None:
                self.kill(why)
                return
            took = time.monotonic() - began
            await asyncio.sleep(max(WATCH_SECONDS, 10 * took))

    def _passed(self) -> KilledBy | None:
        memory = self._limits.memory_bytes
        if memory_in_use(self._tree.pid, memory) > memory:
            return "memory"
        if self._work.used_bytes() > self._limits.work_bytes:
            return "disk"
        return None
