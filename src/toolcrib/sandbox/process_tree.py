"""A command's processes from start to end: all of them end together.

Waiting for a descriptor, on whichever event loop.

How much memory a command's processes use together.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolcrib.sandbox.backend import Launch


async def wait_readable(descriptor: int) -> None:
    """Wait until there is something to read; a process that ended counts, by its descriptor."""
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


STOP_SECONDS: Final = 5.0
"""How long a supervisor may take to end what it supervises before it is killed itself."""


@dataclass(frozen=True, slots=True)
class CommandStreams:
    """The command's ends of its three streams."""

    stdin: int
    stdout: int
    stderr: int


class ProcessTree:
    """What was started for one command. It is over when none of its processes is left."""

    def __init__(self, launch: Launch, streams: CommandStreams) -> None:
        self._launch = launch
        # Started from the event loop's own thread: the kernel ends it when that thread ends.
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
        self._started = os.pidfd_open(self._popen.pid)
        self._last: int | None = None
        self._is_over = False
        self._has_begun = False
        self._beginning = asyncio.create_task(self._begin())
        self._ending = asyncio.create_task(self._end())

    @property
    def pid(self) -> int:
        """The process that all others come from."""
        return self._popen.pid

    @property
    def has_begun(self) -> bool:
        """After the end: whether the command itself was ever started."""
        return self._has_begun

    def kill(self) -> None:
        """End all of it. `ended` tells when that is done."""
        # Before that, its innermost process would be left behind, and nobody knows which it is.
        self._beginning.add_done_callback(lambda _: self._kill())

    async def ended(self) -> int:
        """Wait until no process is left; returns the command's exit code, 128 + N for signal N."""
        return await asyncio.shield(self._ending)

    def _kill(self) -> None:
        if not self._is_over:
            self._send_signals()
            asyncio.get_running_loop().call_later(STOP_SECONDS, self._kill_supervisor)

    def _send_signals(self) -> None:
        with suppress(ProcessLookupError):
            self._launch.end(self._started)
        if self._last is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._last, signal.SIGKILL)

    def _kill_supervisor(self) -> None:
        if not self._is_over:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._started, signal.SIGKILL)

    async def _begin(self) -> None:
        last = await self._launch.begin()
        if last is not None:
            with suppress(ProcessLookupError):
                self._last = os.pidfd_open(last)

    async def _end(self) -> int:
        try:
            await asyncio.wait([self._beginning])
            await wait_readable(self._started)
            code = self._popen.wait()
            if self._last is not None:
                await wait_readable(self._last)
                os.close(self._last)
        except asyncio.CancelledError:
            # The event loop is being closed; nobody will be there to wait.
            self._send_signals()
            raise
        self._is_over = True
        self._has_begun = self._launch.has_begun()
        os.close(self._started)
        self._launch.close()
        return code if code >= 0 else 128 - code


_OWN: Final = ("RssAnon:", "RssShmem:")
_PROC: Final = Path("/proc")


def memory_in_use(pid: int, limit: int) -> int:
    """The bytes that a process and all that came from it hold. Pages that they share count once
    where the limit would be passed, and may count more often where it is not.
    """
    family = list(descendants(pid))
    rough = sum(_kilobytes(each, "status", _OWN) for each in family) * 1024
    if rough <= limit:
        return rough
    # Exact, and many times as slow.
    return sum(_kilobytes(each, "smaps_rollup", ("Pss:",)) for each in family) * 1024


def descendants(pid: int) -> Iterator[int]:
    """A process and all that came from it, as far as they are alive."""
    yield pid
    for thread in _threads(pid):
        with suppress(OSError):
            for child in (thread / "children").read_text().split():
                yield from descendants(int(child))


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
