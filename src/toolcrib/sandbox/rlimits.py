"""The limits that the kernel keeps for each process, and the program that sets them."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from toolcrib.errors import SandboxUnavailable

if TYPE_CHECKING:
    from toolcrib.sandbox.command import Limits

PRLIMIT: Final = "/usr/bin/prlimit"


def limiting(limits: Limits, *, memory: bool = True, processes: bool = True) -> Iterator[str]:
    """What a command is started by, so that it and all that it starts have these limits. Memory
    and processes are left out where something else counts them, or counts them better.
    """
    if not os.access(PRLIMIT, os.X_OK):
        raise SandboxUnavailable(f"there is no {PRLIMIT}; install util-linux")
    # At the soft limit the program gets a signal that tells why; a second later it is killed.
    cpu = _at_most(resource.RLIMIT_CPU, limits.cpu_seconds + 1)
    yield from (PRLIMIT, f"--cpu={min(limits.cpu_seconds, cpu)}:{cpu}", "--core=0", "--memlock=0")
    yield f"--fsize={_at_most(resource.RLIMIT_FSIZE, limits.file_bytes)}"
    yield f"--nofile={_at_most(resource.RLIMIT_NOFILE, limits.open_files)}"
    if memory:
        yield f"--as={_at_most(resource.RLIMIT_AS, limits.memory_bytes)}"
    if processes:
        yield f"--nproc={_at_most(resource.RLIMIT_NPROC, limits.processes)}"
    yield "--"


def _at_most(which: int, wanted: int) -> int:
    """The limit, or this program's own where that is lower: it cannot be raised."""
    _, most = resource.getrlimit(which)
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)
