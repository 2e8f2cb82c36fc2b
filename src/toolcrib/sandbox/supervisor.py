"""The program that supervises a command where there is no namespace to end with it.

It is run as a file of its own and imports nothing of this package. It gathers everything that the
command started, kills all of it when the command ends or when whoever started it is gone, and ends
as the command did.
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
"""That a program of root's gets no privileges by being root's, and that nothing can change that."""


def main() -> None:
    """Read what to run from a descriptor, run it, and end as it ended."""
    told, lifeline = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(told) as file:
        facts: dict[str, Any] = json.load(file)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Before anything is started: from here on, the end of whoever waits for us is ours.
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    code = _sandlocked(facts) if facts["sandlock"] else _limited(facts)
    _end_all()
    sys.stdout.flush()
    os._exit(code)


def _sandlocked(facts: dict[str, Any]) -> int:
    sys.path.append(facts["sandlock"])
    sandlock: Any = importlib.import_module("sandlock")
    if os.geteuid() == 0:
        _drop_privileges()
    # It hands on its own environment, into which Python may have put something.
    os.environ.clear()
    box = sandlock.Sandbox(**facts["options"], env=facts["env"])
    result = box.popen(facts["argv"]).wait()
    return result.exit_code if result.exit_code >= 0 else 128 + (result.signal or signal.SIGKILL)


def _limited(facts: dict[str, Any]) -> int:
    process = subprocess.Popen(facts["argv"], env=facts["env"], cwd=facts["options"]["cwd"])
    code = process.wait()
    return code if code >= 0 else 128 - code


def _drop_privileges() -> None:
    """Stay root's, for root's own files, without any of root's powers."""
    _prctl(PR_SET_SECUREBITS, KEEP_NO_ROOT)
    with suppress(OSError):
        for capability in range(64):
            _prctl(PR_CAPBSET_DROP, capability)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "cannot drop root's privileges")


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    _end_all()
    os._exit(128 + signal.SIGKILL)


def _end_all() -> None:
    """Kill what is left. Orphans become ours, so in the end there is nobody."""
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError), open(f"/proc/self/task/{thread}/children") as file:
            found += map(int, file.read().split())
    return found


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


if __name__ == "__main__":
    main()
