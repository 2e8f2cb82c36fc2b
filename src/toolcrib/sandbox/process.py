"""A confined command that is kept open and spoken with."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from toolcrib.sandbox.command import BackendName, Finished, KilledBy
    from toolcrib.sandbox.running import Running
    from toolcrib.sandbox.streams import Capped
    from toolcrib.sandbox.work import WorkDirectory


class Process:
    """A command that lives between calls. Leaving `async with` ends it and all that it started.

    `stdout` is for the caller to read; a command that writes faster has to wait. Of `stderr` the
    beginning is kept, for `Finished`.
    """

    def __init__(
        self,
        running: Running,
        *,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: Capped,
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

    async def wait(self) -> Finished:
        """Wait for its end. Stdout is the caller's: `Finished` holds what nobody read."""
        code = await asyncio.shield(self._ended)
        await self._stderr.closed()
        rest = await self.stdout.read()
        self.stdin.close()
        return self._running.finished(code, rest, self._stderr.data, self.backend)

    async def close(self) -> Finished:
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
