"""The seccomp filters of sandboxed commands, as programs for the kernel.

They close what namespaces and Landlock leave open: memory that no limit counts, files that would
give their owner's rights to whoever runs them, sockets of families that no network namespace
holds (a virtual machine's host, say), and parts of the kernel that only privileged programs need.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000

# Offsets in the kernel's data: the call's number, the architecture, the first argument.
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
_ARGUMENT_BYTES: Final = 8
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_IF_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

_NEW_NAMESPACES: Final = 0x7E020000
_SOCKET_FAMILIES: Final = (1, 2, 10, 16)  # UNIX, INET, INET6, NETLINK
_SET_ID_BITS: Final = 0o6000
_CREATE: Final = 0o20000100  # O_CREAT, O_TMPFILE
_OPENAT2: Final = 437


@dataclass(frozen=True, slots=True)
class _ModeCall:
    """A call that sets the mode of a file: its number and the argument with the mode. With
    `flags`, the mode counts only when the flags in that argument create a file.
    """

    number: int
    mode: int
    flags: int | None = None


@dataclass(frozen=True, slots=True)
class _Architecture:
    audit: int
    clone: int
    clone3: int
    socket: int
    not_permitted: tuple[int, ...]
    not_there: tuple[int, ...]
    """Refused as unknown. memfd_create, memfd_secret, shmget: memory that counts for no process."""
    mode_calls: tuple[_ModeCall, ...]
    """Refused for a mode with which the file would run as its owner or its group."""
    by_handle: int
    """open_by_handle_at, which reads past the folders around a file."""


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
        mode_calls=(
            *(_ModeCall(90, 1), _ModeCall(91, 1)),  # chmod, fchmod
            *(_ModeCall(268, 2), _ModeCall(452, 2)),  # fchmodat, fchmodat2
            *(_ModeCall(133, 1), _ModeCall(259, 2)),  # mknod, mknodat
            *(_ModeCall(85, 1), _ModeCall(2, 2, 1)),  # creat, open
            _ModeCall(257, 3, 2),  # openat
        ),
        by_handle=304,
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
        mode_calls=(
            *(_ModeCall(52, 1), _ModeCall(53, 2)),  # fchmod, fchmodat
            *(_ModeCall(452, 2), _ModeCall(33, 2)),  # fchmodat2, mknodat
            _ModeCall(56, 3, 2),  # openat
        ),
        by_handle=265,
    ),
}


def seccomp_filter() -> bytes | None:
    """The whole filter, for this machine's architecture; None for one that is not listed."""
    machine = _ARCHITECTURES.get(platform.machine())
    if machine is None:
        return None
    # On ENOSYS a C library falls back to clone, whose flags a filter can read.
    unknown = (machine.clone3, *machine.not_there, _OPENAT2)
    return b"".join(
        [
            *_beginning(machine, machine.not_permitted, unknown),
            *_no_set_id_files(machine),
            *_no_new_namespaces(machine),
            *_known_sockets(machine),
            _step(_RETURN, _ALLOW),
        ]
    )


def limits_filter(*, is_shared: bool) -> bytes | None:
    """The part of the filter that limits need, for the backends without namespaces. A filter that
    `is_shared` by the command and sandlock's own side of the sandbox allows what sandlock needs:
    memory files, which sandlock refuses to the command, and `openat2`, whose mode cannot be read.
    """
    machine = _ARCHITECTURES.get(platform.machine())
    if machine is None:
        return None
    unknown = () if is_shared else (*machine.not_there, _OPENAT2)
    return b"".join(
        [
            *_beginning(machine, (machine.by_handle,), unknown),
            *_no_set_id_files(machine),
            _step(_RETURN, _ALLOW),
        ]
    )


def _beginning(
    machine: _Architecture, not_permitted: Sequence[int], unknown: Sequence[int]
) -> Iterator[bytes]:
    """Load the number of the call, and refuse calls by their number."""
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_JUMP_EQUAL, machine.audit, 1, 0)
    yield _step(_RETURN, _KILL)
    yield _step(_LOAD, _NUMBER)
    # The same calls have other numbers in the x32 ABI, which the lists do not cover.
    yield from _refuse(_JUMP_AT_LEAST, 0x40000000, errno.ENOSYS)
    for number in not_permitted:
        yield from _refuse(_JUMP_EQUAL, number, errno.EPERM)
    for number in unknown:
        yield from _refuse(_JUMP_EQUAL, number, errno.ENOSYS)


def _no_set_id_files(machine: _Architecture) -> Iterator[bytes]:
    for call in machine.mode_calls:
        steps = [
            _step(_LOAD, _argument(call.mode)),
            _step(_JUMP_IF_ANY, _SET_ID_BITS, 0, 1),
            _step(_RETURN, _ERRNO | errno.EPERM),
            _step(_RETURN, _ALLOW),
        ]
        if call.flags is not None:
            # Without these flags the argument of the mode holds anything.
            creates = _step(_JUMP_IF_ANY, _CREATE, 0, len(steps) - 1)
            steps = [_step(_LOAD, _argument(call.flags)), creates, *steps]
        yield _step(_JUMP_EQUAL, call.number, 0, len(steps))
        yield from steps


def _no_new_namespaces(machine: _Architecture) -> Iterator[bytes]:
    yield _step(_JUMP_EQUAL, machine.clone, 0, 4)
    yield _step(_LOAD, _ARGUMENT)
    yield _step(_JUMP_IF_ANY, _NEW_NAMESPACES, 0, 1)
    yield _step(_RETURN, _ERRNO | errno.EPERM)
    yield _step(_RETURN, _ALLOW)


def _known_sockets(machine: _Architecture) -> Iterator[bytes]:
    yield _step(_JUMP_EQUAL, machine.socket, 0, len(_SOCKET_FAMILIES) + 2)
    yield _step(_LOAD, _ARGUMENT)
    for index, family in enumerate(_SOCKET_FAMILIES):
        yield _step(_JUMP_EQUAL, family, len(_SOCKET_FAMILIES) - index, 0)
    yield _step(_RETURN, _ERRNO | errno.EAFNOSUPPORT)


def _argument(index: int) -> int:
    return _ARGUMENT + _ARGUMENT_BYTES * index


def _refuse(test: int, value: int, error: int) -> Iterator[bytes]:
    yield _step(test, value, 0, 1)
    yield _step(_RETURN, _ERRNO | error)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
