"""The sandbox protocol, and the one implementation for all backends."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from toolcrib.sandbox.backend import close_all, memory_file
from toolcrib.sandbox.process import LimitGuard, Process, captured_pipe, reader_pipe, writer_pipe
from toolcrib.sandbox.process_tree import CommandStreams, ProcessTree
from toolcrib.sandbox.work_directory import WorkDirectory

if TYPE_CHECKING:
    from toolcrib.sandbox.backend import Backend, Launch
    from toolcrib.sandbox.command import BackendName, Command, CommandResult


class Sandbox(Protocol):
    """Runs commands confined by a backend."""

    @property
    def backend(self) -> BackendName: ...

    async def run(
        self, command: Command, *, stdin: bytes = b"", work: WorkDirectory | None = None
    ) -> CommandResult:
        """Run a command until it ends or reaches a limit. Without `work` it has a temporary work
        directory. Cancelling this kills it with all its processes.
        """
        ...

    async def open(self, command: Command, *, work: WorkDirectory) -> Process:
        """Start a command that stays open, with pipes to its stdin and stdout. It runs until it
        ends, is closed, reaches a limit, or this program ends.
        """
        ...


class BackendSandbox:
    """A `Sandbox` on any backend."""

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
        with ExitStack() as undo:
            undo.callback(launch.close)
            stdout, out = await captured_pipe(limit, launch.owner)
            undo.callback(os.close, stdout)
            stderr, err = await captured_pipe(limit, launch.owner)
            undo.pop_all()
        tree = _start(launch, CommandStreams(memory_file(stdin), stdout, stderr), work)
        guard = LimitGuard(tree, work, command.limits)
        out.on_full = err.on_full = partial(guard.kill, "output")
        async with _killed_on_error(tree):
            code = await guard.wait()
            await out.closed()
            await err.closed()
        return guard.result(code, out.data, err.data, self.backend)

    async def open(self, command: Command, *, work: WorkDirectory) -> Process:
        launch = self._backend.prepare(command, work)
        limit = command.limits.output_bytes
        # Cancelled here, nothing has started yet, and nothing may be left open.
        with ExitStack() as undo:
            undo.callback(launch.close)
            stdin, writer = await writer_pipe(launch.owner)
            undo.callback(writer.close)
            undo.callback(os.close, stdin)
            stdout, reader = await reader_pipe(limit, launch.owner)
            undo.callback(os.close, stdout)
            stderr, err = await captured_pipe(limit, launch.owner)
            undo.pop_all()
        tree = _start(launch, CommandStreams(stdin, stdout, stderr), work)
        return Process(
            LimitGuard(tree, work, command.limits),
            stdin=writer,
            stdout=reader,
            stderr=err,
            work=work,
            work_at=launch.work_at,
            backend=self.backend,
        )


def _start(launch: Launch, streams: CommandStreams, work: WorkDirectory) -> ProcessTree:
    on_end = partial(work.close_again, work.mode(), clears_set_ids=launch.may_leave_set_ids)
    try:
        return ProcessTree(launch, streams, on_end)
    except BaseException:
        launch.close()
        raise
    finally:
        # The command has its own copies. Left open here, they would hide that it closed them.
        close_all([streams.stdin, streams.stdout, streams.stderr])


@asynccontextmanager
async def _killed_on_error(tree: ProcessTree) -> AsyncGenerator[None]:
    """Kill the command when the block raises, also when it is cancelled."""
    try:
        yield
    except BaseException:
        tree.kill()
        await tree.wait()
        raise
