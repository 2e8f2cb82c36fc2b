"""Servers that really run, and what it takes to mount them in a test."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, cast

from tests.helpers.patience import PATIENCE
from toolcrib import Executor, Session
from toolcrib.calls.outcome import Outcome
from toolcrib.mcp_client import HttpServerConfig, McpServerConfig, MountTerms, StdioServerConfig
from toolcrib.mcp_client.config import ConnectionTiming
from toolcrib.mcp_client.server import MountedServer

Json = dict[str, Any]
Era = Literal["newer", "older"]

HERE = Path(__file__).parent
QUICK = ConnectionTiming(first_pause=0.01, max_pause=0.05, relist=0.01)
OPEN: Json = {"type": "object"}


def terms(name: str = "peer", **given: Any) -> MountTerms:
    chosen: Json = {"prefix": f"{name}_", "approval": "policy", **given}
    return MountTerms(**chosen)


def stdio(name: str = "peer", era: Era = "newer", /, **given: Any) -> StdioServerConfig:
    """The peer on the official SDK, as a program."""
    env = given.pop("env", {})
    args = (str(HERE / "peer.py"), "stdio", era)
    return StdioServerConfig(
        name=name, terms=terms(name, **given), command=sys.executable, args=args, env=env
    )


def raw(*tools: Json | str, **given: Any) -> StdioServerConfig:
    """The peer that says anything, with these tools; a name alone is a tool of that name."""
    told = [each if isinstance(each, dict) else tool(each) for each in tools]
    env = given.pop("env", {})
    args = (str(HERE / "raw_peer.py"), json.dumps(told))
    return StdioServerConfig(
        name="raw", terms=terms("raw", **given), command=sys.executable, args=args, env=env
    )


def rich(era: Era = "newer", **given: Any) -> StdioServerConfig:
    """The peer that uses all of the protocol."""
    env = {"PYTHONPATH": str(HERE.parents[1]), **given.pop("env", {})}
    args = ("-m", "tests.mcp_client.rich_peer", era)
    return StdioServerConfig(
        name="rich", terms=terms("rich", **given), command=sys.executable, args=args, env=env
    )


def tool(name: str, schema: Json | None = None, **more: Any) -> Json:
    return {"name": name, "inputSchema": OPEN if schema is None else schema, **more}


class Mount:
    """A mounted server, and an executor of its tools as they were when it was first reached."""

    def __init__(self, server: MountedServer, changed: asyncio.Event) -> None:
        self.server = server
        self.changed = changed
        self.session = Session()
        self.executor = Executor(self.session, server.tools.served.values())

    async def call(self, name: str, /, **arguments: Any) -> Outcome:
        return await self.executor.call(name, arguments)

    async def until(self, holds: Callable[[MountedServer], bool]) -> None:
        """Wait until something holds of the server."""
        async with asyncio.timeout(PATIENCE):
            while not holds(self.server):
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def mounted(
    config: McpServerConfig,
    environ: Mapping[str, str] | None = None,
    timing: ConnectionTiming = QUICK,
) -> AsyncGenerator[Mount]:
    changed = asyncio.Event()
    server = MountedServer(
        config, "mcp:peer", lambda _: changed.set(), environ=environ or {}, timing=timing
    )
    server.start()
    try:
        await server.first_attempt()
        yield Mount(server, changed)
    finally:
        await server.close()


@asynccontextmanager
async def web_peer(era: Era = "newer", port: int | None = None) -> AsyncGenerator[Web]:
    """The peer on the official SDK at a port of this machine."""
    web = Web(era, port or free_port())
    await web.start()
    try:
        yield web
    finally:
        await web.stop()


class Web:
    """A peer over HTTP, which can be stopped and started again."""

    def __init__(self, era: Era, port: int) -> None:
        self._era = era
        self.port = port
        self._process: asyncio.subprocess.Process | None = None

    def config(self, name: str = "peer", **given: Any) -> HttpServerConfig:
        headers = given.pop("headers", {})
        url = f"http://127.0.0.1:{self.port}/mcp"
        return HttpServerConfig(name=name, terms=terms(name, **given), url=url, headers=headers)

    async def start(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(HERE / "peer.py"),
            f"http:{self.port}",
            self._era,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stderr = cast("asyncio.StreamReader", process.stderr)
        async with asyncio.timeout(PATIENCE):
            while b"Uvicorn running" not in await stderr.readline():
                assert process.returncode is None

    async def until_asked(self, request: str) -> None:
        """Wait until the server has logged a request."""
        process = cast("asyncio.subprocess.Process", self._process)
        async with asyncio.timeout(PATIENCE):
            while request.encode() not in await cast("Any", process.stdout).readline():
                assert process.returncode is None

    async def stop(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.communicate()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return cast("int", found.getsockname()[1])
