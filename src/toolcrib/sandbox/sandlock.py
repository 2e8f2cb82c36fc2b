"""The backends without namespaces, `sandlock` and `rlimits`: a supervisor process kills what a
command started. `prlimit` sets the limits that the kernel enforces for each process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import SandboxUnavailable
from toolcrib.sandbox.backend import close_all, memory_file
from toolcrib.sandbox.python import network_files, system_files, system_folders
from toolcrib.sandbox.seccomp import limits_filter

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName, Command, SandboxLimits
    from toolcrib.sandbox.work_directory import WorkDirectory


PRLIMIT: Final = "/usr/bin/prlimit"


def prlimit_arguments(
    limits: SandboxLimits, *, memory: bool = True, processes: bool = True
) -> Iterator[str]:
    """The command line prefix that sets the limits of a command and of its child processes. A
    backend that counts memory or processes itself leaves them out.
    """
    if not os.access(PRLIMIT, os.X_OK):
        raise SandboxUnavailable(f"{PRLIMIT} is missing; install util-linux")
    # SIGXCPU at the soft limit tells the reason; a second later the kernel kills the program.
    cpu = _at_most(resource.RLIMIT_CPU, limits.cpu_seconds + 1)
    yield from (PRLIMIT, f"--cpu={min(limits.cpu_seconds, cpu)}:{cpu}", "--core=0", "--memlock=0")
    yield f"--fsize={_at_most(resource.RLIMIT_FSIZE, limits.file_bytes)}"
    yield f"--nofile={_at_most(resource.RLIMIT_NOFILE, limits.open_files)}"
    if memory:
        yield f"--as={_at_most(resource.RLIMIT_AS, limits.memory_bytes)}"
    if processes:
        yield f"--nproc={_at_most(resource.RLIMIT_NPROC, limits.processes)}"
    yield "--"


def _at_most(which: int, limit: int) -> int:
    """The limit, or this program's own where that is lower: it cannot be raised."""
    _, own = resource.getrlimit(which)
    return limit if own == resource.RLIM_INFINITY else min(limit, own)


_SUPERVISOR: Final = str(Path(__file__).with_name("supervisor.py"))
_SUPERVISOR_THREADS: Final = 2
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


class Sandlock:
    """The package `sandlock`: Landlock for files, seccomp for the rest."""

    name: BackendName = "sandlock"

    def prepare(self, command: Command, work: WorkDirectory) -> SupervisedLaunch:
        facts = {
            "sandlock": _sandlock_folder(),
            "filter": _hex(limits_filter(is_shared=True)),
            # Sandlock counts processes, and the memory of all of them together, itself.
            "argv": [
                *prlimit_arguments(command.limits, memory=False, processes=False),
                *command.argv,
            ],
            "env": dict(command.env),
            "options": _policy(command, work),
        }
        return SupervisedLaunch(facts, command, work)


class Rlimits:
    """Limits and a clock without confinement, for commands that are fully trusted."""

    name: BackendName = "rlimits"

    def prepare(self, command: Command, work: WorkDirectory) -> SupervisedLaunch:
        # The kernel counts all processes of the user, so the user must have no others.
        is_counted = os.geteuid() == 0
        limits = replace(command.limits, processes=command.limits.processes + _SUPERVISOR_THREADS)
        facts = {
            "sandlock": None,
            "filter": _hex(limits_filter(is_shared=False)),
            "argv": [*prlimit_arguments(limits, processes=is_counted), *command.argv],
            "env": dict(command.env),
            "options": {"cwd": str(work.path)},
        }
        return SupervisedLaunch(facts, command, work)


class SupervisedLaunch:
    """One start of the supervisor, which ends when `_lifeline` is closed."""

    def __init__(self, facts: dict[str, Any], command: Command, work: WorkDirectory) -> None:
        if command.proxy is not None:
            raise SandboxUnavailable(
                "only bubblewrap can close every way to the network but a proxy"
            )
        self.owner = work.command_user()
        self.may_leave_set_ids = facts["sandlock"] is not None or facts["filter"] is None
        self.work_at = PurePosixPath(work.path)
        paths = [work.path.parent, Path(sys.executable), *command.readable]
        user = {"id": self.owner, "enters_closed_folders": not all(map(_is_open, paths))}
        request = memory_file(json.dumps({**facts, "user": user}).encode())
        lifeline, self._lifeline = os.pipe2(os.O_CLOEXEC)
        self._inherited = [request, lifeline]
        self.argv = [sys.executable, "-I", "-S", _SUPERVISOR, str(request), str(lifeline)]

    @property
    def descriptors(self) -> Sequence[int]:
        return self._inherited

    async def wait_started(self) -> None:
        close_all(self._inherited)
        self._inherited = []

    def command_started(self) -> bool:
        return True

    def kill(self, started_process: int) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def close(self) -> None:
        close_all(self._inherited)
        self._inherited = []
        self.kill(-1)


def _is_open(path: Path) -> bool:
    """Whether any user may read what is at this path, by the modes of the folders above it."""
    real = path.resolve()
    readable = 0o5 if real.is_dir() else 0o4
    return real.stat().st_mode & readable == readable and all(
        folder.stat().st_mode & 0o1 for place in (path, real) for folder in place.parents
    )


def _hex(program: bytes | None) -> str | None:
    return None if program is None else program.hex()


def _policy(command: Command, work: WorkDirectory) -> dict[str, Any]:
    limits = command.limits
    visible = (*system_folders(), *system_files(), *command.readable)
    readable = [
        *_DEVICES,
        *map(str, visible),
        *map(str, network_files() if command.network else ()),
    ]
    return {
        "fs_readable": readable,
        "fs_writable": [str(work.path), "/dev/null"],
        "net_allow": ["*:*"] if command.network else [],
        "max_memory": limits.memory_bytes,
        "max_processes": limits.processes,
        "cwd": str(work.path),
        "no_coredump": True,
        # Memory that counts for no process. Sandlock's own side of the sandbox needs the call.
        "extra_deny_syscalls": ["memfd_create"],
    }


def _sandlock_folder() -> str:
    spec = importlib.util.find_spec("sandlock")
    if spec is None or spec.origin is None:
        raise SandboxUnavailable("the package sandlock is not installed")
    return str(Path(spec.origin).parents[1])
