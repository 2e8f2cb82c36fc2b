"""The system calls that confined programs do without: a seccomp filter, as bytes for the kernel.

Namespaces hide files, processes and the network. The filter closes what they leave open: sockets
of families that no network namespace holds (a virtual machine's host, say), memory that no limit
counts, and parts of the kernel that only privileged programs need.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000

# Where the kernel puts what a filter may look at: the call, the architecture, the first argument.
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
    """memfd_create, memfd_secret, shmget: memory that counts for no process."""


_SINCE_2019: Final = (
    *(425, 426, 427),  # io_uring
    *(428, 429, 430, 431, 432, 433, 442),  # the new mount calls
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
            *(103, 163, 164, 167, 168, 169, 227),  # syslog, acct, time, swap, reboot, clocks
            *(155, 161, 165, 166, 179, 308, 272),  # pivot_root, chroot, mounts, setns, unshare
            *(172, 173, 175, 176, 246, 313, 320),  # ports, kernel modules, kexec
            *(248, 249, 250, 298, 300, 303, 304, 321, 323),  # keys, perf, fanotify, handles, bpf
            *_SINCE_2019,
        ),
        not_there=(319, 447, 29),
    ),
    "aarch64": _Architecture(
        audit=0xC00000B7,
        clone=220,
        clone3=435,
        socket=198,
        not_permitted=(
            *(117, 270, 271),
            *(116, 89, 170, 224, 225, 142, 112),
            *(41, 51, 40, 39, 60, 268, 97),
            *(105, 106, 104, 273, 294),
            *(217, 218, 219, 241, 262, 264, 265, 280, 282),
            *_SINCE_2019,
        ),
        not_there=(279, 447, 194),
    ),
}


def seccomp_filter() -> bytes | None:
    """The filter for this machine's processor, or None for one whose calls are not known."""
    found = _ARCHITECTURES.get(platform.machine())
    return None if found is None else b"".join(_program(found))


def _program(machine: _Architecture) -> Iterator[bytes]:
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_JUMP_EQUAL, machine.audit, 1, 0)
    yield _step(_RETURN, _KILL)
    yield _step(_LOAD, _NUMBER)
    # The same calls under other numbers (x32) would walk past the list below.
    yield from _refuse(_JUMP_AT_LEAST, 0x40000000, errno.ENOSYS)
    for number in machine.not_permitted:
        yield from _refuse(_JUMP_EQUAL, number, errno.EPERM)
    # A C library that meets ENOSYS falls back to clone, whose flags a filter can read.
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
