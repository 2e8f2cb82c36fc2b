"""The guard: a small process that ends the server programs of a gateway that is gone.

The gateway closes its programs itself. When it is killed it cannot, and a program may ignore the
end of its input. Every program carries a mark of its gateway in its environment, which the
processes that it starts inherit. The guard waits for the end of a pipe that only the gateway holds,
and then kills every process with the mark, and the groups and sessions of those.

The guard runs this file as a script, without the package: it imports the standard library only.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

MARK_VARIABLE: Final = "TOOLCRIB_GATEWAY"
"""The environment variable with the mark."""

_PROCESSES: Final = Path("/proc")
_ROUNDS: Final = 20
_PAUSE_SECONDS: Final = 0.05


class _Guard:
    """The guard of this process. `pipe` is held open for as long as the process lives."""

    def __init__(self) -> None:
        self.mark = os.urandom(16).hex()
        receiver, self.pipe = os.pipe()
        try:
            # Not marked, and in a session of its own: it outlives what ends the gateway.
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, self.mark],
                stdin=receiver,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            os.close(self.pipe)
            raise
        finally:
            os.close(receiver)

    def leave(self) -> None:
        """Let go of the guard: at the end of this process, or in a forked one, which must not hold
        the pipe of its parent.
        """
        os.close(self.pipe)
        # Nobody here waits for it.
        self.process.returncode = 0


_guards: Final[list[_Guard]] = []


def guarded_environment() -> dict[str, str]:
    """The variables of a program that must not outlive this process. Starts the guard with the
    first program. Where there is no `/proc`, nothing is guarded.
    """
    if _guards and _guards[-1].process.poll() is not None:
        os.close(_guards.pop().pipe)
    if not _guards:
        if not sys.executable or not _PROCESSES.joinpath("self/environ").exists():
            logger.warning("server programs are not guarded: they may outlive this process")
            return {}
        try:
            _guards.append(_Guard())
        except OSError as error:
            logger.warning("server programs are not guarded: %s", error)
            return {}
    return {MARK_VARIABLE: _guards[-1].mark}


def _leave() -> None:
    while _guards:
        _guards.pop().leave()


os.register_at_fork(after_in_child=_leave)
atexit.register(_leave)


def _guard(mark: str) -> None:
    """Wait for the end of the gateway, then kill what has the mark."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    entry, quiet = f"{MARK_VARIABLE}={mark}".encode(), 0
    # A process that has yet to become its program has no mark: it is found in a later round.
    for _ in range(_ROUNDS):
        quiet = 0 if _kill_marked(entry) else quiet + 1
        if quiet == 3:
            return
        time.sleep(_PAUSE_SECONDS)


def _kill_marked(entry: bytes) -> bool:
    """Kill the marked processes with their groups and sessions; False when there are none."""
    own = os.getsid(0)
    places = {pid: place for pid, place in _places() if own not in place}
    marked = {pid for pid in places if _has_mark(pid, entry)}
    common = {number for pid in marked for number in places[pid]}
    doomed = marked | {pid for pid, place in places.items() if common.intersection(place)}
    for pid in doomed:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return bool(doomed)


def _places() -> Iterator[tuple[int, tuple[int, int]]]:
    """Every living process, with its group and its session."""
    for entry in os.listdir(_PROCESSES):
        if entry.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                # The name of the program is in brackets, and may hold anything.
                stat = _PROCESSES.joinpath(entry, "stat").read_bytes().rpartition(b")")[2].split()
                if stat[0] not in (b"Z", b"X"):
                    yield int(entry), (int(stat[2]), int(stat[3]))


def _has_mark(pid: int, entry: bytes) -> bool:
    with suppress(OSError):
        return entry in _PROCESSES.joinpath(str(pid), "environ").read_bytes().split(b"\0")
    return False


if __name__ == "__main__":
    _guard(sys.argv[1])
