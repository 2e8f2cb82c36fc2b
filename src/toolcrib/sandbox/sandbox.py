"""The one protocol: run a command where it can do no harm.

The sandbox of a backend: start, watch, end and tell.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from toolcrib.sandbox.backend import close_all, memory_file
from toolcrib.sandbox.process import LimitGuard, Process
from toolcrib.sandbox.process_tree import CommandStreams, ProcessTree
from toolcrib.sandbox.streams import captured_pipe, reader_pipe, writer_pipe
from toolcrib.sandbox.work_directory import WorkDirectory

if TYPE_CHECKING:
    from toolcrib.sandbox.backend import Backend, Launch
    from toolcrib.sandbox.command import BackendName, Command, CommandResult


class Sandbox(Protocol):
    """Runs commands confined. `backend` says by what."""

    @property
    def backend(self) -> BackendName: ...

    async def run(
        self, command: Command, *, stdin: bytes = b"", work: WorkDirectory | None = None
    ) -> CommandResult:
        """Run a command to its end, whatever that is. Without `work` it has a directory that is
        removed afterwards. Cancelling this kills it and all that it started.
        """
        ...

    async def open(self, command: Command, *, work: WorkDirectory) -> Process:
        """Start a command that is spoken with through stdin and stdout. It lives until it ends,
        is closed, reaches a limit, or this program dies.
        """
        ...


class BackendSandbox:
    """A `Sandbox` whose commands a backend confines."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def backend(self) -> BackendName:
        return self._backend.name

    async def run(
        self, command: Command, *, stdin: bytes = b"", work: WorkDirectory | None = None
    ) -> CommandResult:
        if work is None:
            with WorkDirectory.temporary() as temporary:
                return await self.run(command, stdin=stdin, work=temporary)
        launch = self._backend.prepare(command, work)
        limit = command.limits.output_bytes
        stdout, out = await captured_pipe(limit, launch.owner)
        stderr, err = await captured_pipe(limit, launch.owner)
        tree = _started(launch, CommandStreams(memory_file(stdin), stdout, stderr))
        running = LimitGuard(tree, work, command.limits)
        out.on_full = err.on_full = partial(running.kill, "output")
        async with _ended_with(tree):
            code = await running.ended()
            await out.closed()
            await err.closed()
        return running.finished(code, out.data, err.data, self.backend)

    async def open(self, command: Command, *, work: WorkDirectory) -> Process:
        launch = self._backend.prepare(command, work)
        limit = command.limits.output_bytes
        stdin, to = await writer_pipe(launch.owner)
        stdout, out = await reader_pipe(limit, launch.owner)
        stderr, err = await captured_pipe(limit, launch.owner)
        tree = _started(launch, CommandStreams(stdin, stdout, stderr))
        return Process(
            LimitGuard(tree, work, command.limits),
            stdin=to,
            stdout=out,
            stderr=err,
            work=work,
            work_at=launch.work_at,
            backend=self.backend,
        )


def _started(launch: Launch, streams: CommandStreams) -> ProcessTree:
    try:
        return ProcessTree(launch, streams)
    except BaseException:
        launch.close()
        raise
    finally:
        # The command has its own; the ends that stay open here would hide that it closed them.
        close_all([streams.stdin, streams.stdout, streams.stderr])


@asynccontextmanager
async def _ended_with(tree: ProcessTree) -> AsyncGenerator[None]:
    """What ends the block early, a cancellation too, ends the command."""
    try:
        yield
    except BaseException:
        tree.kill()
        await tree.ended()
        raise
