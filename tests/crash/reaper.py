"""Starts lives and ends them."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.crash.workload import Plan


@dataclass(frozen=True, slots=True)
class Death:
    """When to kill: so many reports after the start, and so many seconds after that."""

    after_reports: int
    delay: float


class Reaper:
    """Runs one life at a time."""

    def __init__(self, server: "subprocess.Popen[str]") -> None:
        self._server = server

    def run(self, plan: Plan, death: Death | None) -> list[dict[str, Any]]:
        """Let a process live by `plan` until it is killed; what it told its callers."""
        os.mkfifo(plan.reports)
        pipe = os.open(plan.reports, os.O_RDONLY | os.O_NONBLOCK)
        try:
            pid = int(self._ask(json.dumps(asdict(plan))))
            data = _listen(pipe, death.after_reports if death else None)
            if death is not None:
                select.select([], [], [], death.delay)
                os.kill(pid, signal.SIGKILL)
            status = int(self._ask())
            data += _rest(pipe)
        finally:
            os.close(pipe)
            Path(plan.reports).unlink()
        assert os.WIFSIGNALED(status), f"the process ended by itself with {status}"
        assert os.WTERMSIG(status) == signal.SIGKILL
        return [json.loads(line) for line in data.splitlines()]

    def _ask(self, line: str | None = None) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        if line is not None:
            self._server.stdin.write(f"{line}\n")
            self._server.stdin.flush()
        answer = self._server.stdout.readline()
        assert answer, "the fork server is gone"
        return answer


@contextmanager
def reaper() -> Generator[Reaper]:
    """A fork server with everything imported."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.forkserver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with server:
        try:
            yield Reaper(server)
        finally:
            server.kill()


def _listen(pipe: int, lines: int | None) -> bytes:
    """Read until so many lines have come, or the other end is closed."""
    data = b""
    is_connected = False
    while lines is None or data.count(b"\n") < lines:
        # A pipe that nobody has opened for writing yet reads as ended.
        select.select([pipe], [], [], None if is_connected else 0.001)
        chunk = _read(pipe)
        if chunk is None:
            is_connected = True
        elif chunk:
            is_connected = True
            data += chunk
        elif is_connected:
            break
    return data


def _rest(pipe: int) -> bytes:
    data = b""
    while chunk := _read(pipe):
        data += chunk
    return data


def _read(pipe: int) -> bytes | None:
    """What has come; nothing at the end; None when more may come."""
    try:
        return os.read(pipe, 65_536)
    except BlockingIOError:
        return None
