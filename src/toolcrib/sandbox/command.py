"""What is run in a sandbox, within which limits, and how it ended.

How a tool's handler is confined, as a definition says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from toolcrib.errors import UsageError

BackendName = Literal["bubblewrap", "sandlock", "rlimits"]
"""What confines: the first two do, `rlimits` only counts."""

KilledBy = Literal["wall_clock", "cpu", "memory", "output", "disk", "closed"]
"""Which limit ended a command before it ended by itself; `closed`: it was not wanted any more."""

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """How much a command may use. What is over is killed, with everything that it started."""

    seconds: float | None = 30.0
    """On the wall clock; None for a process that is kept open."""
    cpu_seconds: int = 60
    """Of each process."""
    memory_bytes: int = 1024 * MEBIBYTE
    """Of each process as addresses, of all of them together as memory that is in use."""
    processes: int = 64
    """Threads count too."""
    output_bytes: int = MEBIBYTE
    """Of stdout and of stderr."""
    file_bytes: int = 128 * MEBIBYTE
    """Of any one file."""
    work_bytes: int = 512 * MEBIBYTE
    """Of everything in the work directory."""
    temporary_bytes: int = 64 * MEBIBYTE
    """Of `/tmp` and of `/dev/shm`, which are memory and are gone afterwards."""
    open_files: int = 256

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if name == "seconds" and value is None:
                continue
            kinds = (int, float) if name == "seconds" else (int,)
            if type(value) not in kinds or not value > 0:
                raise UsageError(f"the limit {name} must be a number above 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, and all that it may see of the machine.

    It sees the system's programs and libraries, `readable` and its work directory. Its environment
    is `env` and nothing else.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    readable: tuple[Path, ...] = ()
    network: bool = False
    limits: SandboxLimits = SandboxLimits()
    work_at: PurePosixPath | None = None
    """Where it sees its work directory, if the backend can mount; else at its real path."""

    def __post_init__(self) -> None:
        if not self.argv:
            raise UsageError("a command needs a program to run; argv is empty")
        texts = (*self.argv, *self.env, *self.env.values())
        if any("\0" in text for text in texts):
            raise UsageError("a command's arguments and environment cannot hold NUL characters")
        if any(not name or "=" in name for name in self.env):
            raise UsageError("a command's environment has a name that is empty or holds '='")
        if missing := [path for path in self.readable if not path.exists()]:
            raise UsageError(f"there is no {str(missing[0])!r} that the command could read")
        if any(path.resolve() == Path("/") for path in self.readable):
            raise UsageError("'/' would let the command read everything; name what it needs")
        if self.work_at is not None and not is_mountable(self.work_at):
            raise UsageError(f"work_at must be a place of its own, not {str(self.work_at)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. Nothing that it started is left.

    `exit_code` is 128 + N when signal N ended it. `backend` is what confined it.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    killed_by: KilledBy | None
    backend: BackendName
    duration_seconds: float

    @property
    def timed_out(self) -> bool:
        """Whether a limit on time ended it, of the wall clock or of the processor."""
        return self.killed_by in ("wall_clock", "cpu")

    @property
    def success(self) -> bool:
        """Whether it ended by itself and said that all is well."""
        return self.exit_code == 0 and self.killed_by is None


_TAKEN: Final = (
    "bin",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "sbin",
    "sys",
    "usr",
)


def is_mountable(place: PurePosixPath) -> bool:
    """Whether a work directory can be shown there without covering what programs need."""
    parts = place.parts
    return place.is_absolute() and ".." not in parts and len(parts) > 1 and parts[1] not in _TAKEN


_LIMITS: Final = frozenset(each.name for each in fields(SandboxLimits))


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """What a confined handler gets besides Python, the installed libraries and its own code."""

    limits: SandboxLimits = field(default_factory=SandboxLimits)
    env: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    readable: tuple[Path, ...] = ()
    """Files and folders that it may read. Modules in such a folder can be imported."""
    network: bool = False
    allow_unconfined: bool = False
    """Whether it may run with limits alone where nothing can confine it."""

    @classmethod
    def of(cls, given: SandboxOptions | Mapping[str, Any] | bool) -> SandboxOptions:
        """The options in any form that a definition has: as they are, a table of options and
        limits, or `True` for the usual ones.
        """
        if isinstance(given, SandboxOptions):
            return given
        if isinstance(given, bool):
            return cls()
        limits = {name: value for name, value in given.items() if name in _LIMITS}
        rest = {name: value for name, value in given.items() if name not in _LIMITS}
        if unknown := rest.keys() - {each.name for each in fields(cls)} | rest.keys() & {"limits"}:
            raise UsageError(f"sandbox has no option {sorted(unknown)[0]!r}")
        readable = tuple(Path(path).absolute() for path in rest.pop("readable", ()))
        return cls(limits=SandboxLimits(**limits), readable=readable, **rest)
