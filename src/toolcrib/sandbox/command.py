"""A sandboxed command: what to run, its limits, its result, and the options of a sandboxed tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from toolcrib.errors import UsageError

BackendName = Literal["bubblewrap", "sandlock", "rlimits"]
"""The backends. The first two confine; `rlimits` only enforces limits."""

KilledBy = Literal["wall_clock", "cpu", "memory", "output", "disk", "closed"]
"""The limit that killed a command; `closed`: the caller ended it."""

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """How much a command may use. Past a limit it is killed with all its processes."""

    seconds: float | None = 30.0
    """On the wall clock; None for no limit."""
    cpu_seconds: int = 60
    """Of each process."""
    memory_bytes: int = 1024 * MEBIBYTE
    """Of each process as address space, of all of them together as memory in use."""
    processes: int = 64
    """Threads count too."""
    output_bytes: int = MEBIBYTE
    """Of stdout and of stderr."""
    file_bytes: int = 128 * MEBIBYTE
    """Of any one file."""
    work_bytes: int = 512 * MEBIBYTE
    """Of everything in the work directory."""
    temporary_bytes: int = 64 * MEBIBYTE
    """Of `/tmp` and of `/dev/shm`, which are in memory and removed afterwards."""
    open_files: int = 256

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if name == "seconds" and value is None:
                continue
            types = (int, float) if name == "seconds" else (int,)
            if type(value) not in types or not value > 0:
                raise UsageError(f"the limit {name} must be a number above 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, and the parts of the machine that it may see.

    It sees the system's programs and libraries, `readable` and its work directory. Its environment
    is `env` and nothing else.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    readable: tuple[Path, ...] = ()
    network: bool = False
    proxy: Path | None = None
    """The socket file of an HTTP proxy, the only way out of a command without a network. Programs
    find it by the usual variables, such as `HTTPS_PROXY`. Only bubblewrap has it."""
    limits: SandboxLimits = SandboxLimits()
    work_at: PurePosixPath | None = None
    """Where it sees its work directory, if the backend can mount; else it is at its real path."""

    def __post_init__(self) -> None:
        if not self.argv:
            raise UsageError("argv is empty; name a program to run")
        texts = (*self.argv, *self.env, *self.env.values())
        if any("\0" in text for text in texts):
            raise UsageError("a command's arguments and environment cannot contain NUL characters")
        if any(not name or "=" in name for name in self.env):
            raise UsageError("a command's environment has a name that is empty or contains '='")
        if missing := [path for path in self.readable if not path.exists()]:
            raise UsageError(f"the readable path {str(missing[0])!r} does not exist")
        if any(path.resolve() == Path("/") for path in self.readable):
            raise UsageError("'/' would let the command read everything; name what it needs")
        if self.proxy is not None and self.network:
            raise UsageError("a command has a network or a proxy; with a network it needs no proxy")
        if self.work_at is not None and not is_mountable(self.work_at):
            raise UsageError(
                f"work_at must be an absolute path outside the system's folders, not "
                f"{str(self.work_at)!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. None of its processes is left.

    `exit_code` is 128 + N when signal N ended it. `backend` is the one that confined it.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    killed_by: KilledBy | None
    backend: BackendName
    duration_seconds: float

    @property
    def timed_out(self) -> bool:
        """Whether a time limit killed it, of the wall clock or of the processor."""
        return self.killed_by in ("wall_clock", "cpu")

    @property
    def success(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0 and self.killed_by is None


_SYSTEM_FOLDERS: Final = (
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
    """Whether a work directory can be mounted there without covering the system's folders."""
    parts = place.parts
    return (
        place.is_absolute()
        and ".." not in parts
        and len(parts) > 1
        and parts[1] not in _SYSTEM_FOLDERS
    )


_LIMITS: Final = frozenset(limit.name for limit in fields(SandboxLimits))


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """What a sandboxed handler gets besides Python, the installed libraries and its own code."""

    limits: SandboxLimits = field(default_factory=SandboxLimits)
    env: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    readable: tuple[Path, ...] = ()
    """Files and folders that it may read. Modules in such a folder can be imported."""
    network: bool = False
    allow_unconfined: bool = False
    """Whether it may run with limits only, where no backend can confine it."""

    @classmethod
    def of(cls, options: SandboxOptions | Mapping[str, Any] | bool) -> SandboxOptions:
        """The options in any form that a definition accepts: an instance, a mapping of options and
        limits, or `True` for the defaults.
        """
        if isinstance(options, SandboxOptions):
            return options
        if isinstance(options, bool):
            return cls()
        limits = {name: value for name, value in options.items() if name in _LIMITS}
        rest = {name: value for name, value in options.items() if name not in _LIMITS}
        if unknown := rest.keys() - {option.name for option in fields(cls)} | rest.keys() & {
            "limits"
        }:
            raise UsageError(f"sandbox has no option {sorted(unknown)[0]!r}")
        readable = tuple(Path(path).absolute() for path in rest.pop("readable", ()))
        return cls(limits=SandboxLimits(**limits), readable=readable, **rest)
