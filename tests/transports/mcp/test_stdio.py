"""MCP on the pipes of a real process: `toolcrib mcp`, and nothing but the protocol on stdout."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.helpers.child_process import PYTHON_PATH
from tests.transports.mcp.connected_client import ERAS, Person, facts_of, says, text_of

TOOLS = """\
tools:
  - name: greet
    description: Greet somebody.
    module: mcp_stdio_tools
    function: greet
    parameters: {type: object, properties: {name: {type: string}}, required: [name]}
  - name: guarded
    description: Greet somebody, with leave.
    module: mcp_stdio_tools
    function: greet
    requires_approval: true
    parameters: {type: object, properties: {name: {type: string}}, required: [name]}
  - name: forever
    description: Wait.
    module: mcp_stdio_tools
    function: forever
    parameters: {type: object, properties: {}}
"""
HANDLERS = """\
import asyncio
import os

print("noise of a module")


def greet(input, context):
    print("noise of a tool")
    os.write(1, b"noise of the system\\n")
    return f"Hello, {input['name']}!"


async def forever(input, context):
    await asyncio.Event().wait()
"""
BEGIN = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
CALL = {"name": "greet", "arguments": {"name": "Ada"}}
COMMAND = ("-c", "from toolcrib.cli import main; main()", "mcp", "--host-tools", "tools.yaml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.yaml").write_text(TOOLS)
    (tmp_path / "mcp_stdio_tools.py").write_text(HANDLERS)
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PYTHON_PATH}


@asynccontextmanager
async def client_of(folder: Path, era: str, *flags: str, **more: Any) -> AsyncGenerator[Client]:
    command = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, *flags], cwd=folder, env=environment()
    )
    async with Client(command, mode=era, **more) as client:
        yield client


class Raw:
    """A process and its pipes, without an SDK."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def send(self, line: str | bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
        await self.process.stdin.drain()

    async def ask(self, number: int, method: str, params: Any = None) -> None:
        told = {"jsonrpc": "2.0", "id": number, "method": method}
        await self.send(json.dumps(told if params is None else {**told, "params": params}))

    async def begin(self) -> None:
        await self.ask(1, "initialize", BEGIN)
        await self.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        assert (await self.read())["id"] == 1

    async def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(await self.process.stdout.readline())

    async def end(self) -> list[Any]:
        """Close its input; what it still says."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        rest = await self.process.stdout.read()
        return [json.loads(line) for line in rest.splitlines()]


@asynccontextmanager
async def raw(folder: Path, *flags: str) -> AsyncGenerator[Raw]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *COMMAND,
        *flags,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env=environment(),
        limit=50_000_000,
    )
    try:
        yield Raw(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class TestTheCommand:
    @pytest.mark.parametrize("era", ERAS)
    async def test_a_client_that_starts_it_lists_and_calls(self, folder: Path, era: str) -> None:
        """R30, R36: tools of a file, over the pipes, and what tools print goes elsewhere."""
        async with client_of(folder, era) as client:
            names = [each.name for each in (await client.list_tools()).tools]
            result = await client.call_tool("greet", {"name": "Zoë"})

        assert names == ["greet", "guarded", "forever"]
        assert text_of(result) == "Hello, Zoë!"

    @pytest.mark.parametrize("era", ERAS)
    async def test_by_default_nobody_approves_at_the_client(self, folder: Path, era: str) -> None:
        """R42: whoever starts the process may call; to trust the client takes a flag."""
        person = Person()
        async with client_of(folder, era, elicitation_callback=person) as client:
            result = await client.call_tool("guarded", {"name": "Eve"})

        assert facts_of(result)["status"] == "waiting"

    @pytest.mark.parametrize("era", ERAS)
    async def test_with_the_flag_the_person_at_the_client_decides(
        self, folder: Path, era: str
    ) -> None:
        """R42: and then the call goes on."""
        flags = ("--approve-by-elicitation", "always")
        person = Person(says("approve"))
        async with client_of(folder, era, *flags, elicitation_callback=person) as client:
            result = await client.call_tool("guarded", {"name": "Ada"})

        assert text_of(result) == "Hello, Ada!"


class TestThePipes:
    async def test_what_is_no_message_is_answered_and_nothing_ends(self, folder: Path) -> None:
        """A line that cannot be read costs the client that line."""
        async with raw(folder) as host:
            await host.begin()
            await host.send(b"\xff\xfenonsense")
            garbled = await host.read()
            await host.send('{"hello": 1}')
            other = await host.read()
            await host.ask(2, "ping")
            alive = await host.read()

        assert garbled["error"]["code"] == -32700
        assert other["error"]["code"] == -32600
        assert alive["id"] == 2

    async def test_a_thousand_mangled_lines_end_nothing(self, folder: Path) -> None:
        """R39: whatever comes, who asks properly is answered."""
        rng = random.Random(7)
        whole = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": CALL})
        async with raw(folder) as host:
            await host.begin()
            for _ in range(1_000):
                line = bytearray(whole.encode())
                for _ in range(rng.randint(1, 6)):
                    line[rng.randrange(len(line))] = rng.choice(b'{}[]",:0a\x00\xff')
                await host.send(bytes(line))
            await host.ask(77, "tools/call", CALL)
            answers = await host.end()
            code = await host.process.wait()

        (mine,) = [each for each in answers if each.get("id") == 77]
        assert mine["result"]["content"][0]["text"] == "Hello, Ada!"
        assert code == 0

    async def test_a_message_that_is_too_long_is_refused(self, folder: Path) -> None:
        """The cap of the runtime holds; it need not fit into memory first."""
        async with raw(folder) as host:
            await host.begin()
            await host.send(b'{"jsonrpc":"2.0","id":2,"x":"' + b"x" * 11_000_000 + b'"}')
            refused = await host.read()
            await host.ask(3, "ping")
            alive = await host.read()

        assert "more than 10000000 bytes, the maximum" in refused["error"]["message"]
        assert alive["id"] == 3

    async def test_what_was_asked_is_answered_after_the_input_ends(self, folder: Path) -> None:
        """A script that writes all it has and closes the pipe gets all of its answers."""
        async with raw(folder) as host:
            await host.begin()
            for number in (2, 3, 4):
                call = {"name": "greet", "arguments": {"name": str(number)}}
                await host.ask(number, "tools/call", call)
            answers = await host.end()
            code = await host.process.wait()

        assert {each["id"] for each in answers} == {2, 3, 4}
        assert code == 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    async def test_a_signal_ends_it_in_order(
        self, folder: Path, number: signal.Signals, sqlite_path: Path
    ) -> None:
        """What runs is cancelled and written down, and the process exits with 0."""
        async with raw(folder, "--store", str(sqlite_path)) as host:
            await host.begin()
            await host.ask(2, "ping")
            await host.read()
            host.process.send_signal(number)
            code = await host.process.wait()

        assert code == 0

    async def test_a_client_that_does_not_read_any_more_ends_it(self, folder: Path) -> None:
        """Nobody is left to serve."""
        reads, writes = os.pipe()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=writes,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env=environment(),
        )
        os.close(writes)
        os.close(reads)
        await Raw(process).ask(1, "initialize", BEGIN)

        assert await process.wait() == 0
