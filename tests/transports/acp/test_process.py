"""An agent as a process: its pipes, its command, its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from acp.exceptions import RequestError

from tests.helpers.child_process import PYTHON_PATH
from tests.helpers.patience import PATIENCE
from tests.transports.acp.editor import SHOP, desk, why
from tests.transports.stdio_host import ROOT

pytestmark = pytest.mark.slow

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}


class Raw:
    """A process, line by line, with nothing of the SDK's in between."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        await self.process.stdin.drain()

    async def say(self, message: Any) -> None:
        await self.write(json.dumps(message).encode())

    async def hear(self) -> Any:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self.process.stdout.readline())

    async def end(self) -> tuple[bytes, str]:
        """Close its input; what else it wrote, and its words on stderr."""
        async with asyncio.timeout(PATIENCE):
            out, errors = await self.process.communicate(b"")
        return out, errors.decode()


@asynccontextmanager
async def raw(*flags: str) -> AsyncGenerator[Raw]:
    process = await asyncio.create_subprocess_exec(
        *SHOP,
        *flags,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        stdin=-1,
        stdout=-1,
        stderr=-1,
        limit=10_000_000,
    )
    try:
        yield Raw(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_stdout_is_the_protocols_alone() -> None:
    """What tools and their processes print goes to stderr."""
    async with raw() as at:
        await at.say(INITIALIZE)
        await at.hear()
        await at.say(
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "session/new",
                "params": {"cwd": "/", "mcpServers": []},
            }
        )
        session_id = (await at.hear())["result"]["sessionId"]
        call: dict[str, Any] = {"session_id": session_id, "name": "noisy", "arguments": {}}
        await at.say({"jsonrpc": "2.0", "id": 3, "method": "_toolcrib/tools.call", "params": call})
        while "id" not in (heard := await at.hear()):
            assert heard["method"] == "session/update"

        assert heard["result"]["value"] == "quiet"
        out, errors = await at.end()
    for line in out.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"
    assert "noise of a child" in errors


async def test_sigterm_ends_a_prompt_that_waits_and_exits_with_0() -> None:
    """The prompt is told that the agent closes; what it waits for stays to be decided."""
    async with desk("--script", "guarded") as (at, process):
        turn = asyncio.ensure_future(at.prompt(await at.open(), "Greet Bob."))
        await at.question()

        process.send_signal(signal.SIGTERM)

        with pytest.raises(RequestError) as told:
            await turn
        assert why(told.value) == "closing"
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0


async def test_an_agent_whose_editor_is_gone_ends() -> None:
    """No agent is left behind by an editor that crashed while it was asked something."""
    async with desk("--script", "guarded") as (at, process):
        turn = asyncio.ensure_future(at.prompt(await at.open(), "Greet Bob."))
        await at.question()
        turn.cancel()
    assert process.returncode == 0


async def test_the_command_serves_an_agent(tmp_path: Any) -> None:
    """`toolcrib acp` has the host's tools, keeps sessions, and leaves stdout to the protocol."""
    (tmp_path / "my_shop.py").write_text(
        "from toolcrib import tool\n\nprint('loaded')\n\n\n"
        "@tool(is_read_only=True)\ndef price(article: str) -> float:\n"
        '    """Look up a price."""\n    return 0.5\n'
    )
    toolcrib = (sys.executable, "-c", "from toolcrib.cli import main; main()")
    command = (*toolcrib, "acp", "--host-tools-module", "my_shop")
    async with desk("--store", "crib.sqlite3", command=command, cwd=tmp_path) as (at, process):
        session_id = await at.open(str(tmp_path))
        told = await at.ask(
            "tools.call", session_id=session_id, name="price", arguments={"article": "pear"}
        )
        assert told["value"] == 0.5
    assert process.returncode == 0
    assert (tmp_path / "crib.sqlite3").exists()
