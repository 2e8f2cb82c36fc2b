"""How much memory a command's processes use together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

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
