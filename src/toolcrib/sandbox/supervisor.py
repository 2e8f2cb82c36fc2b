"""The supervisor program of the backends without namespaces.

It runs as a file of its own and imports nothing of this package. It becomes the parent of
everything that the command starts, kills all of it when the command ends or its own parent is
gone, and exits with the command's exit code.
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

PR_SET_CHILD_SUBREAPER = 36
PR_SET_SECUREBITS = 28
PR_CAPBSET_DROP = 24
KEEP_NO_ROOT = 0x2F
"""Secure bits: being root gives a program no privileges, and nothing can change that."""


def main() -> None:
    """Read the request from a descriptor, run the command, and exit with its exit code."""
    request, lifeline = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(request) as file:
        facts: dict[str, Any] = json.load(file)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Before anything is started, so that the end of our parent is never missed.
    threading.Thread(target=_kill_with_parent, args=(lifeline,), daemon=True).start()
    code = _sandlocked(facts) if facts["sandlock"] else _limited(facts)
    _kill_all()
    sys.stdout.flush()
    os._exit(code)


def _sandlocked(facts: dict[str, Any]) -> int:
    sys.path.append(facts["sandlock"])
    sandlock: Any = importlib.import_module("sandlock")
    if os.geteuid() == 0:
        _drop_privileges()
    # Sandlock passes on its own environment, to which Python may have added variables.
    os.environ.clear()
    box = sandlock.Sandbox(**facts["options"], env=facts["env"])
    result = box.popen(facts["argv"]).wait()
    return result.exit_code if result.exit_code >= 0 else 128 + (result.signal or signal.SIGKILL)


def _limited(facts: dict[str, Any]) -> int:
    process = subprocess.Popen(facts["argv"], env=facts["env"], cwd=facts["options"]["cwd"])
    code = process.wait()
    return code if code >= 0 else 128 - code


def _drop_privileges() -> None:
    """Stay root, to own root's files, without any of root's capabilities."""
    _prctl(PR_SET_SECUREBITS, KEEP_NO_ROOT)
    with suppress(OSError):
        for capability in range(64):
            _prctl(PR_CAPBSET_DROP, capability)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "cannot drop root's privileges")


def _kill_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
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


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


if __name__ == "__main__":
    main()
