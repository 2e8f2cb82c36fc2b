"""Other processes that use a store, driven line by line."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.patience import PATIENCE

PRELUDE = """
import os, signal, sys
from tests.helpers.patience import PATIENCE
from tests.store.facts import *
from toolcrib.errors import *
from toolcrib.store import SqliteStore
from toolcrib.store.store import *
path = sys.argv[1]
def tell(text): print(text, flush=True)
def wait(): return sys.stdin.readline().strip()
"""


class Child:
    """A Python process that tells lines and waits for lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def hear(self) -> str:
        """The next line the child tells."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the child ended with {self.process.wait(PATIENCE)}"
        return line.strip()

    def go_on(self, text: str = "") -> None:
        """Let a waiting child go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL: no clean-up of any kind runs in the child."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> int:
        """Wait until the child ends by itself."""
        return self.process.wait(PATIENCE)


@contextmanager
def child(path: Path, script: str) -> Generator[Child]:
    """Run `script` after `PRELUDE`, with `path` as the file of its store."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with process:
        try:
            yield Child(process)
        finally:
            process.kill()
