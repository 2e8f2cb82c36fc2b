"""A real process with a runtime on its stdin and stdout, and a client of it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.helpers.child_process import PYTHON_PATH
from tests.helpers.patience import PATIENCE
from tests.transports.rpc_client import RpcClient

ROOT = Path(__file__).parents[2]
SHOP = (sys.executable, "-m", "tests.transports.shop")


class StdioHost(RpcClient):
    """Talks to a process. `garbage` are the lines of its stdout that are no messages."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(self._write)
        self.process = process
        self.garbage: list[bytes] = []
        self.errors = ""
        self._tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._listen())]

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def end_input(self) -> int:
        """Close its stdin and wait for its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await self.exit_code()

    async def exit_code(self) -> int:
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
            await asyncio.gather(*self._tasks)
        return code

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.exit_code()

    async def _write(self, frame: str) -> None:
        await self.write(frame.encode() + b"\n")

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            try:
                self.take(line.decode())
            except ValueError:
                self.garbage.append(line)
        self.lost()

    async def _listen(self) -> None:
        assert self.process.stderr is not None
        self.errors = (await self.process.stderr.read()).decode()


@asynccontextmanager
async def hosted(
    *flags: str, command: tuple[str, ...] = SHOP, cwd: Path = ROOT
) -> AsyncGenerator[StdioHost]:
    """A process that serves; it is killed at the end of the block if it has not ended."""
    process = await asyncio.create_subprocess_exec(
        *command,
        *flags,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        limit=50_000_000,
    )
    host = StdioHost(process)
    try:
        yield host
    finally:
        await host.kill()
