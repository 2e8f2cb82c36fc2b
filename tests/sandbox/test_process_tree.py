"""Counting the memory of a family of processes."""

import os
import subprocess
import sys

from toolcrib.sandbox.process_tree import descendants, memory_in_use

MEBIBYTE = 1024 * 1024
FAMILY = """
import os, sys
held = b"x" * (40 << 20)
if os.fork() == 0:
    more = b"y" * (20 << 20)
    print("ready", flush=True)
    sys.stdin.readline()
    os._exit(0)
os.wait()
"""


def test_a_family_is_counted_once() -> None:
    """R44: what a child shares with its parent counts once, where it matters."""
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"

        assert len(list(descendants(parent.pid))) == 2
        exact = memory_in_use(parent.pid, limit=1)
        rough = memory_in_use(parent.pid, limit=10**12)
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        parent.wait()

    assert 60 * MEBIBYTE <= exact <= 95 * MEBIBYTE
    assert rough >= 100 * MEBIBYTE
    assert memory_in_use(parent.pid, limit=1) == 0


def test_this_process_uses_memory() -> None:
    """The numbers are bytes."""
    assert memory_in_use(os.getpid(), limit=10**12) > MEBIBYTE
