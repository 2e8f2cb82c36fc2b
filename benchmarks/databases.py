"""Servers for the sections that need one, and the CPU time that they use: those of the tests."""

import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from tests.servers.postgres import (  # noqa: E402
    PostgresServer,
    remove_postgres,
    temporary_postgres,
)

_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def postgres_server() -> Generator[PostgresServer]:
    """PostgreSQL as it comes: its commits wait for the disk."""
    server = temporary_postgres(is_durable=True)
    try:
        yield server
    finally:
        remove_postgres(server)


def server_seconds(server: PostgresServer) -> float:
    """CPU time of all processes of a server so far, those that have ended included."""
    return tree_seconds(int((server.folder / "postmaster.pid").read_text().split("\n")[0]))


def tree_seconds(pid: int) -> float:
    """CPU time of a process, of its children and of theirs, ended or not."""
    spent: dict[int, float] = {}
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name of the program may hold spaces; it ends at the last bracket.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        # utime, stime, and the same of children that were waited for
        spent[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    return sum(seconds for each, seconds in spent.items() if _is_below(each, pid, parents))


def _is_below(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid not in (0, top):
        pid = parents.get(pid, 0)
    return pid == top


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
