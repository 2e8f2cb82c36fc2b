"""The system calls that sandboxed programs may not make: a seccomp filter in the kernel's format.

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
