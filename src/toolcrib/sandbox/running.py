"""A confined command while it runs: watched, and ended at the first limit that it reaches."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Final

from toolcrib.errors import SandboxFailed
from toolcrib.sandbox.command import Finished, KilledBy
from toolcrib.sandbox.usage import memory_in_use

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName, Limits
    from toolcrib.sandbox.tree import Tree
    from toolcrib.sandbox.work import WorkDirectory

WATCH_SECONDS: Final = 0.1
"""How often memory and disk are looked at; less often where looking takes long."""


class Running:
    """The limits of one command that no kernel keeps: wall clock, output, memory of all processes
    together, and disk.
    """

    def __init__(self, tree: Tree, work: WorkDirectory, limits: Limits) -> None:
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

    def finished(self, code: int, out: bytes, err: bytes, backend: BackendName) -> Finished:
        """The end as a fact. Raises `SandboxFailed` when the command was never started."""
        killed_by = self.killed_by
        if killed_by is None and not self._tree.has_begun:
            told = err.decode(errors="replace").strip()
            raise SandboxFailed(f"the sandbox could not be made: {told}")
        if killed_by is None and code == 128 + signal.SIGXCPU:
            killed_by = "cpu"
        return Finished(
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
