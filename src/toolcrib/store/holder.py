"""Which process holds a lease, and whether it is certainly dead."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, told apart from later ones of the same number.

    Process numbers mean something only within one `realm`: one boot of one machine and, in
    containers, one process namespace.
    """

    host: str
    realm: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"{self.host}/{self.realm}/{self.pid}/{self.started}"

    @classmethod
    def parse(cls, text: str) -> Holder | None:
        """Read what `str(holder)` wrote; None when it is something else."""
        match text.split("/"):
            case [host, realm, pid, started] if pid.isdecimal():
                return cls(host, realm, int(pid), started)
            case _:
                return None

    def describe(self) -> str:
        """For error messages."""
        return f"process {self.pid} on {self.host}"


def this_process() -> Holder:
    """The running process; a forked child gets its own."""
    return _process(os.getpid())


def is_gone(holder: Holder) -> bool:
    """True only when it is certain that the process no longer runs."""
    if holder.realm != this_process().realm:
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    started = _started(holder.pid)
    return started is not None and started != holder.started


@lru_cache(maxsize=1)
def _process(pid: int) -> Holder:
    host = socket.gethostname().replace("/", "_")
    return Holder(host, _realm(), pid, _started(pid) or "")


def _realm() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{uuid.getnode():x}"


def _started(pid: int) -> str | None:
    """When a process started, in its kernel's ticks; None where that cannot be read.

    A killed process stays in the table until its parent looks; it runs no more, so it gets a
    start time that no living process has.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name in parentheses may itself hold spaces and parentheses.
    state, *rest = stat.rpartition(")")[2].split()
    return "ended" if state in ("Z", "X") else rest[18]
