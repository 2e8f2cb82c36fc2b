"""How much a command uses: the memory of its processes, and the space of its work directory.

Both are looked at while the command runs, so that a look must cost the same whatever the command
has done before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolcrib.sandbox.work_directory import WorkDirectory

MAX_PROCESSES: Final = 4096
"""The most processes that are looked at; only a command without that limit has more."""
RECOUNT_SECONDS: Final = 2.0
"""How long the size of a work directory may be an estimate."""
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


class DiskUsage:
    """The space that a command uses in its work directory.

    Counting takes as long as there are files, so it is done seldom: between two counts the usage
    is the last count and what has gone from the file system since. That is exact while nothing
    else writes to the file system, and too much when something does; a count settles it.
    """

    def __init__(self, work: WorkDirectory, pid: int) -> None:
        self._work = work
        self._pid = pid
        self._counted = 0
        self._free_then: int | None = None
        self._recount_at = 0.0
        self._estimate_until = 0.0

    def exceeds(self, limit: int) -> bool:
        """Whether the command uses more than `limit`."""
        now, free = time.monotonic(), _free_bytes(self._work.path)
        if self._free_then is not None and now < self._recount_at:
            estimate = self._counted + self._free_then - free
            if estimate <= limit or now < self._estimate_until:
                return False
        self._counted = self._work.used_bytes() + self._unlinked_bytes()
        self._free_then = free
        seconds = time.monotonic() - now
        # A busy file system must not keep a processor busy with counting.
        self._estimate_until = now + 2 * seconds
        self._recount_at = now + max(RECOUNT_SECONDS, 10 * seconds)
        return self._counted > limit

    def _unlinked_bytes(self) -> int:
        """The space of files that are open and have no name any more."""
        device = os.stat(self._work.path).st_dev
        sizes: dict[int, int] = {}
        for pid in descendants(self._pid):
            folder = _PROC / str(pid) / "fd"
            with suppress(OSError):
                for name in os.listdir(folder):
                    with suppress(OSError):
                        facts = os.stat(folder / name)
                        if facts.st_nlink == 0 and facts.st_dev == device:
                            sizes[facts.st_ino] = facts.st_blocks * 512
        return sum(sizes.values())


def _free_bytes(path: Path) -> int:
    facts = os.statvfs(path)
    return facts.f_bfree * facts.f_frsize
