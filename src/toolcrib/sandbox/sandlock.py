"""Backends without namespaces of their own: a supervisor ends what a command started.

The limits that the kernel keeps for each process, and the program that sets them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import SandboxUnavailable
from toolcrib.sandbox.backend import close_all, memory_file
from toolcrib.sandbox.system import network_files, system_files, system_folders

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName, Command, SandboxLimits
    from toolcrib.sandbox.work_directory import WorkDirectory


PRLIMIT: Final = "/usr/bin/prlimit"


def prlimit_arguments(
    limits: SandboxLimits, *, memory: bool = True, processes: bool = True
) -> Iterator[str]:
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


_SUPERVISOR: Final = str(Path(__file__).with_name("supervisor.py"))
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


class Sandlock:
    """The package `sandlock`: Landlock for files, seccomp for the rest."""

    name: BackendName = "sandlock"

    def prepare(self, command: Command, work: WorkDirectory) -> SupervisedLaunch:
        facts = {
            "sandlock": _sandlock_folder(),
            # It counts the memory of all processes together, and the processes, itself.
            "argv": [
                *prlimit_arguments(command.limits, memory=False, processes=False),
                *command.argv,
            ],
            "env": dict(command.env),
            "options": _policy(command, work),
        }
        return SupervisedLaunch(facts, work)


class Rlimits:
    """Limits and a clock, and nothing hidden: for commands that are trusted with everything."""

    name: BackendName = "rlimits"

    def prepare(self, command: Command, work: WorkDirectory) -> SupervisedLaunch:
        facts = {
            "sandlock": None,
            # The kernel counts every process of a user, so a limit would count others' too.
            "argv": [*prlimit_arguments(command.limits, processes=False), *command.argv],
            "env": dict(command.env),
            "options": {"cwd": str(work.path)},
        }
        return SupervisedLaunch(facts, work)


class SupervisedLaunch:
    """One start of the supervisor. It lives while `_lifeline` is open here."""

    owner = None

    def __init__(self, facts: dict[str, Any], work: WorkDirectory) -> None:
        if os.geteuid() == 0 and os.stat(work.path).st_uid != 0:
            # Without root's privileges even root needs to be the owner.
            work.give_to(0)
        self.work_at = PurePosixPath(work.path)
        told = memory_file(json.dumps(facts).encode())
        lifeline, self._lifeline = os.pipe2(os.O_CLOEXEC)
        self._given = [told, lifeline]
        self.argv = [sys.executable, "-I", "-S", _SUPERVISOR, str(told), str(lifeline)]

    @property
    def descriptors(self) -> Sequence[int]:
        return self._given

    async def begin(self) -> None:
        close_all(self._given)
        self._given = []

    def has_begun(self) -> bool:
        return True

    def end(self, started: int) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def close(self) -> None:
        close_all(self._given)
        self._given = []
        self.end(-1)


def _policy(command: Command, work: WorkDirectory) -> dict[str, Any]:
    limits = command.limits
    seen = (*system_folders(), *system_files(), *command.readable)
    readable = [*_DEVICES, *map(str, seen), *map(str, network_files() if command.network else ())]
    return {
        "fs_readable": readable,
        "fs_writable": [str(work.path), "/dev/null"],
        "net_allow": ["*:*"] if command.network else [],
        "max_memory": limits.memory_bytes,
        "max_processes": limits.processes,
        "cwd": str(work.path),
        "no_coredump": True,
    }


def _sandlock_folder() -> str:
    found = importlib.util.find_spec("sandlock")
    if found is None or found.origin is None:
        raise SandboxUnavailable("the package sandlock is not installed")
    return str(Path(found.origin).parents[1])
