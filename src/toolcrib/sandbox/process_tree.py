"""The processes of one command: started together, killed together, measured together.

`ProcessTree.kill` is where a sandboxed process is killed. A backend starts one process, and every
process of the command descends from it. Killing happens through descriptors of processes
(pidfds), so that a process id that was reused can never be hit.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolcrib.sandbox.backend import Launch

SUPERVISOR_SECONDS: Final = 5.0
"""How long the started process may take to end the command before it is killed itself."""

LAST_SECONDS: Final = 1.0
"""How long a closing event loop waits for a process that it killed."""


@dataclass(frozen=True, slots=True)
class CommandStreams:
    """The command's ends of its three streams."""

    stdin: int
    stdout: int
    stderr: int


class ProcessTree:
    """All processes of one command. It has ended when none of them is left and `on_end`, which runs
    in a thread, has returned.
    """

    def __init__(self, launch: Launch, streams: CommandStreams, on_end: Callable[[], None]) -> None:
        self._launch = launch
        self._on_end = on_end
        # Started from the event loop's own thread: the kernel kills it when that thread ends.
        self._popen = subprocess.Popen(
            launch.argv,
            env={},
            cwd="/",
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            pass_fds=launch.descriptors,
            start_new_session=True,
        )
        self._started_process = os.pidfd_open(self._popen.pid)
        # The process that all others end with, where that is not the started one.
        self._innermost_process: int | None = None
        self._has_ended = False
        self._command_started = False
        self._startup = asyncio.create_task(self._wait_startup())
        self._end = asyncio.create_task(self._wait_end())

    @property
    def pid(self) -> int:
        """The process that all others descend from."""
        return self._popen.pid

    @property
    def command_started(self) -> bool:
        """After the end: whether the command itself was ever started."""
        return self._command_started

    def kill(self) -> None:
        """Kill all processes of the command. `wait` returns when that is done."""
        # Not before the startup is over: until then the innermost process is not known, and it
        # would be left behind.
        self._startup.add_done_callback(lambda _: self._kill_all())

    async def wait(self) -> int:
        """Wait until no process is left; returns the command's exit code, 128 + N for signal N."""
        # Shielded: cancelling the wait does not stop the cleanup.
        return await asyncio.shield(self._end)

    def _kill_all(self) -> None:
        if not self._has_ended:
            self._send_kill_signals()
            loop = asyncio.get_running_loop()
            loop.call_later(SUPERVISOR_SECONDS, self._kill_started_process)

    def _send_kill_signals(self) -> None:
        with suppress(ProcessLookupError):
            self._launch.kill(self._started_process)
        if self._innermost_process is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._innermost_process, signal.SIGKILL)

    def _kill_started_process(self) -> None:
        if not self._has_ended:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._started_process, signal.SIGKILL)

    async def _wait_startup(self) -> None:
        pid = await self._launch.wait_started()
        if pid is not None:
            with suppress(ProcessLookupError):
                self._innermost_process = os.pidfd_open(pid)

    async def _wait_end(self) -> int:
        try:
            await asyncio.wait([self._startup])
            await wait_readable(self._started_process)
            code = self._popen.wait()
            if self._innermost_process is not None:
                await wait_readable(self._innermost_process)
                os.close(self._innermost_process)
        except asyncio.CancelledError:
            # The event loop is closing, and nothing else will wait for the end.
            self._send_kill_signals()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(LAST_SECONDS)
            raise
        self._has_ended = True
        await asyncio.to_thread(self._on_end)
        self._command_started = self._launch.command_started()
        os.close(self._started_process)
        self._launch.close()
        return code if code >= 0 else 128 - code


async def wait_readable(descriptor: int) -> None:
    """Wait until a descriptor is readable; a pidfd is when its process has ended."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


MAX_PROCESSES: Final = 4096
"""The most processes that are looked at; only a command without that limit has more."""
_RESIDENT: Final = ("RssAnon:", "RssShmem:")
_PROC: Final = Path("/proc")


def memory_in_use(pid: int, limit: int) -> int:
    """The bytes of memory of a process and its descendants.

    Exact above `limit`, where shared pages count once; below it an upper estimate.
    """
    pids = list(descendants(pid))
    estimate = sum(_kilobytes(pid, "status", _RESIDENT) for pid in pids) * 1024
    if estimate <= limit:
        return estimate
    # Exact, and many times as slow.
    return sum(_kilobytes(pid, "smaps_rollup", ("Pss:",)) for pid in pids) * 1024


def descendants(pid: int) -> Iterator[int]:
    """A process and its living descendants, up to `MAX_PROCESSES`."""
    waiting = [pid]
    for _ in range(MAX_PROCESSES):
        if not waiting:
            return
        parent = waiting.pop()
        yield parent
        for thread in _threads(parent):
            with suppress(OSError):
                waiting += map(int, (thread / "children").read_text().split())


def _threads(pid: int) -> list[Path]:
    try:
        return list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def _kilobytes(pid: int, file: str, names: tuple[str, ...]) -> int:
    try:
        lines = (_PROC / str(pid) / file).read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(names))


def unlinked_files(pid: int, device: int) -> Iterator[os.stat_result]:
    """The files of a device that a process or its descendants have open and that have no name."""
    for each in descendants(pid):
        folder = _PROC / str(each) / "fd"
        with suppress(OSError):
            for name in os.listdir(folder):
                with suppress(OSError):
                    facts = os.stat(folder / name)
                    if facts.st_nlink == 0 and facts.st_dev == device:
                        yield facts
