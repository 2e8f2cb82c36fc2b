"""Child processes whose output is read while they run."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tests.helpers.patience import PATIENCE

_ROOT = Path(__file__).parents[2]
PYTHON_PATH: Final = os.pathsep.join([str(_ROOT), str(_ROOT / "src")])
"""The PYTHONPATH of a child that imports `tests`, and `toolcrib` from the same checkout."""


class Output:
    """One output stream of a process, read by a thread until it ends.

    A single reader sees every line, in however many pieces they arrive: `Popen.communicate` would
    miss what an earlier `readline` had already taken into its buffer. A process whose output is
    read never blocks on a full pipe.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self._taken = 0
        self._is_ended = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """All that has been written so far; after `join`, all there is."""
        with self._change:
            return "".join(self._lines)

    def next_line(self, containing: str = "") -> str:
        """Wait for the next line with this text in it; lines before it are skipped."""
        with self._change:
            self._change.wait_for(lambda: self._has_line(containing) or self._is_ended, PATIENCE)
            if not self._has_line(containing):
                written = "".join(self._lines)
                raise AssertionError(f"no line with {containing!r} was written: {written!r}")
            self._taken = self._position(containing) + 1
            return self._lines[self._taken - 1]

    def join(self) -> None:
        """Wait for the end of the stream."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the output stream is still open"

    def _has_line(self, containing: str) -> bool:
        return self._position(containing) < len(self._lines)

    def _position(self, containing: str) -> int:
        unread = range(self._taken, len(self._lines))
        return next((at for at in unread if containing in self._lines[at]), len(self._lines))

    def _read(self) -> None:
        with self._stream:
            for line in self._stream:
                with self._change:
                    self._lines.append(line)
                    self._change.notify_all()
        with self._change:
            self._is_ended = True
            self._change.notify_all()


class ChildProcess:
    """A running process, and what it writes to stdout and stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.stdout = Output(process.stdout)
        self.stderr = Output(process.stderr)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end and for the rest of its output; return its exit status."""
        status = self.process.wait(PATIENCE)
        self.stdout.join()
        self.stderr.join()
        return status


@contextmanager
def child_process(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Generator[ChildProcess]:
    """Run a command with an empty stdin; it is killed at the end of the block if it still runs."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child = ChildProcess(process)
    try:
        yield child
    finally:
        process.kill()
        child.wait()
