"""The limits that the kernel keeps for each process."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.sandbox.command import Limits


def lower(pid: int, limits: Limits) -> None:
    """Set the limits of a process; those of it that are lower already stay."""
    for which, (soft, hard) in _limits_of(limits):
        _, most = resource.prlimit(pid, which)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.prlimit(pid, which, (soft, hard))


def _limits_of(limits: Limits) -> Iterator[tuple[int, tuple[int, int]]]:
    """Each as `resource` wants it: which one, and its soft and hard value."""
    # At the soft limit the program gets a signal that tells why; a second later it is killed.
    yield resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 1)
    yield resource.RLIMIT_AS, _both(limits.memory_bytes)
    yield resource.RLIMIT_FSIZE, _both(limits.file_bytes)
    yield resource.RLIMIT_NOFILE, _both(limits.open_files)
    yield resource.RLIMIT_CORE, _both(0)
    yield resource.RLIMIT_MEMLOCK, _both(0)
    yield resource.RLIMIT_NPROC, _both(limits.processes)


def _both(value: int) -> tuple[int, int]:
    return value, value
