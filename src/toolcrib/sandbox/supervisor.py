"""The supervisor program of the backends without namespaces.

It runs as a file of its own and imports nothing of this package. It gives up root, becomes the
parent of everything that the command starts, kills all of it when the command ends or its own
parent is gone, and exits with the command's exit code.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
SECCOMP_MODE_FILTER = 2
NO_ROOT_NO_FIXUP = 0x0F
"""Secure bits, locked: being root gives no privileges, and changing the user takes none. Without
the second, `access` would say that a folder which can be entered cannot.
"""
STARTING = threading.Lock()
"""Held while the command is started."""
CAP_DAC_READ_SEARCH = 2
"""The one capability that a command may keep: to enter closed folders, within its sandbox."""


def main() -> None:
    """Read the request from a descriptor, run the command, and exit with its exit code."""
    request, lifeline = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(request) as file:
        facts: dict[str, Any] = json.load(file)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    sandlock: Any = None
    if facts["sandlock"] is not None:
        # While its folder can be read.
        sys.path.append(facts["sandlock"])
        sandlock = importlib.import_module("sandlock")
    if facts["user"]["id"] is not None:
        _become(facts["user"]["id"], facts["user"]["enters_closed_folders"])
    # Before anything is started, so that the end of our parent is never missed.
    threading.Thread(target=_kill_with_parent, args=(lifeline,), daemon=True).start()
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if facts["filter"] is not None:
        _install_filter(bytes.fromhex(facts["filter"]))
    code = _limited(facts) if sandlock is None else _sandlocked(sandlock, facts)
    _kill_all()
    sys.stdout.flush()
    os._exit(code)


def _sandlocked(sandlock: Any, facts: dict[str, Any]) -> int:
    # Sandlock passes on its own environment, to which Python may have added variables.
    os.environ.clear()
    box = sandlock.Sandbox(**facts["options"], env=facts["env"])
    with STARTING:
        process = box.popen(facts["argv"])
    result = process.wait()
    return result.exit_code if result.exit_code >= 0 else 128 + (result.signal or signal.SIGKILL)


def _limited(facts: dict[str, Any]) -> int:
    with STARTING:
        process = subprocess.Popen(facts["argv"], env=facts["env"], cwd=facts["options"]["cwd"])
    code = process.wait()
    return code if code >= 0 else 128 - code


def _become(user: int, enters_closed_folders: bool) -> None:
    """Become a user without rights for good, except, where the command's own files lie in folders
    that only root may enter, the right to enter them. Landlock confines that right too.
    """
    kept = {CAP_DAC_READ_SEARCH} if enters_closed_folders else set[int]()
    _prctl(PR_SET_SECUREBITS, NO_ROOT_NO_FIXUP)
    with suppress(OSError):
        # Up to the last one that this kernel knows.
        for capability in range(64):
            if capability not in kept:
                _prctl(PR_CAPBSET_DROP, capability)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    mask = sum(1 << capability for capability in kept)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    # Effective, permitted and inheritable, then the upper halves.
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask)
    if ctypes.CDLL(None, use_errno=True).capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "cannot drop root's privileges")
    for capability in kept:
        _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)
    # A change of user hides a process from its own user, and so from sandlock.
    _prctl(PR_SET_DUMPABLE, 1)


def _install_filter(program: bytes) -> None:
    """Install a seccomp filter for this thread and for everything that it starts."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    steps = ctypes.create_string_buffer(program, len(program))
    installed = Program(len(program) // 8, ctypes.addressof(steps))
    _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(installed))


def _kill_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    # Held until the end: what is being started is among the children then, and nothing starts any
    # more. A command that began in between would outlive us.
    STARTING.acquire()
    _kill_all()
    os._exit(128 + signal.SIGKILL)


def _kill_all() -> None:
    """Kill all descendants. Orphans become our children, so in the end none is left."""
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    pids: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError), open(f"/proc/self/task/{thread}/children") as file:
            pids += map(int, file.read().split())
    return pids


def _prctl(option: int, value: int, more: int = 0) -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if prctl(option, value, more, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


if __name__ == "__main__":
    main()
