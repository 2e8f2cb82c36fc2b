"""What compose.replicas.yaml starts, without Docker: real replicas, real PostgreSQL, real Caddy."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import httpx2

from tests.cli.command import Served, environment, serving
from tests.helpers.patience import PATIENCE
from toolcrib.serving.tokens import owner_token
from toolcrib.store.cipher import new_key

CADDYFILE = Path(__file__).parents[2] / "deploy/Caddyfile.replicas"
TOOLS = '''
import os
from pathlib import Path
from typing import IO

from toolcrib import tool


@tool
def note(number: int) -> str:
    """Write a number down, once for each call.

    Args:
        number: What to write.
    """
    with Path(os.environ["NOTES"]).open("a") as file:
        file.write(f"{number}\\n")
    return os.environ["TOOLCRIB_REPLICA_NAME"]
'''


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ReplicaSet:
    """Where the replicas of a test are, and what they share."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.store = store
        self.key = new_key()
        self.ports = [free_port(), free_port()]
        self.front = f"http://127.0.0.1:{free_port()}"
        self.notes = folder / "notes"
        (folder / "crib_tools.py").write_text(TOOLS, "utf-8")
        self.notes.touch()

    @property
    def token(self) -> str:
        return owner_token(self.folder / "token")

    @property
    def noted(self) -> int:
        """How many calls have written their number."""
        return self.notes.read_text("utf-8").count("\n")

    @asynccontextmanager
    async def replica(
        self, number: int, *arguments: str, code: Path | None = None
    ) -> AsyncGenerator[Served]:
        """A replica on the port of its number, of the package in `code`."""
        path = os.pathsep.join([*([str(code)] if code else []), str(self.folder)])
        async with serving(
            *(
                "--host-tools-module",
                "crib_tools",
            ),
            *("--port", str(self.ports[number]), *arguments),
            cwd=self.folder,
            TOOLCRIB_STORE=self.store,
            TOOLCRIB_STORE_KEY=self.key,
            TOOLCRIB_REPLICA_NAME=f"replica-{number}",
            NOTES=str(self.notes),
            PYTHONPATH=path,
        ) as served:
            yield served

    @asynccontextmanager
    async def balancer(self) -> AsyncGenerator[str]:
        """Caddy with the file of deploy/ in front of all ports; yields its URL."""
        file = self.folder / "Caddyfile"
        file.write_text("{\n\tadmin off\n}\n" + CADDYFILE.read_text("utf-8"), "utf-8")
        with (self.folder / "caddy.log").open("wb") as log:
            process = await self._caddy(file, log)
        try:
            await self._answers()
            yield self.front
        finally:
            process.terminate()
            await process.wait()

    async def _caddy(self, file: Path, log: IO[bytes]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(Path(sys.executable).parent / "caddy", "run"),
            *("--adapter", "caddyfile", "--config", file),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=environment(
                TOOLCRIB_HOST=self.front,
                TOOLCRIB_UPSTREAMS=" ".join(f"127.0.0.1:{port}" for port in self.ports),
                TOOLCRIB_HEALTH_INTERVAL="200ms",
                XDG_DATA_HOME=str(self.folder),
                XDG_CONFIG_HOME=str(self.folder),
            ),
        )

    async def _answers(self) -> None:
        async with asyncio.timeout(PATIENCE), httpx2.AsyncClient(trust_env=False) as client:
            while True:
                try:
                    if (await client.get(self.front + "/openapi.json")).status_code == 200:
                        return
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(0.05)
