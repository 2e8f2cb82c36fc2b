"""An agent as a process: its pipes, its lines, its end."""

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

from tests.transports.acp.editor import SHOP, desk, why
from tests.transports.acp.wired import wired_desk
from tests.transports.shop import shop
from tests.transports.stdio_host import ROOT
from toolcrib.runtime.runtime import Runtime

PATIENCE = 40.0
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
        env={**os.environ, "PYTHONPATH": str(ROOT)},
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


async def test_what_is_no_message_is_answered_and_the_next_one_is_read() -> None:
    """Lines that are no JSON, too long, batches or answers to nothing do not end the connection."""
    async with raw("--small") as at:
        for line, code in [
            (b"{nothing", -32700),
            (b"[]", -32600),
            (b'{"jsonrpc":"2.0","id":7,"method":5}', -32600),
            (b'{"jsonrpc":"2.0","id":8,"method":"x","params":"' + b"y" * 30_000 + b'"}', -32013),
        ]:
            await at.write(line)
            assert (await at.hear())["error"]["code"] == code
        await at.write(b'{"jsonrpc":"2.0","id":[],"result":{}}')
        await at.say({"jsonrpc": "2.0", "method": "nobody/knows", "params": {}})
        await at.say(INITIALIZE)

        assert (await at.hear())["result"]["protocolVersion"] == 1
        out, errors = await at.end()
    assert (out, at.process.returncode) == (b"", 0)
    assert "a module that prints as it is loaded" in errors


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


async def test_an_unforeseen_error_is_told_without_its_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The SDK would send the text of any exception; ours may hold what the client must not see."""

    async def broken(*_: object) -> None:
        raise RuntimeError("the password is swordfish")

    async with wired_desk(shop()) as at:
        session_id = await at.open()
        monkeypatch.setattr(Runtime, "ask", broken)

        for asked in (
            at.prompt(session_id, "Go."),
            at.ask("tools.list", session_id=session_id),
            at.agent.list_sessions(),
        ):
            with pytest.raises(RequestError) as told:
                await asked
            assert "swordfish" not in f"{told.value} {told.value.data}"
            assert why(told.value) == "internal"
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("method", "code"),
    [("session/teleport", -32601), ("_somebody/else", -32601), ("_toolcrib/nothing", -32004)],
)
async def test_what_is_not_there_is_told(method: str, code: int) -> None:
    """A method that nobody has is the protocol's error; an operation is the runtime's."""
    async with raw() as at:
        await at.say(INITIALIZE)
        await at.hear()
        await at.say({"jsonrpc": "2.0", "id": 2, "method": method, "params": {}})

        assert (await at.hear())["error"]["code"] == code


async def test_a_session_is_deleted() -> None:
    """What the agent advertises and the Python SDK has no word for."""
    async with raw() as at:
        await at.say(INITIALIZE)
        can = (await at.hear())["result"]["agentCapabilities"]
        params: dict[str, Any] = {"cwd": "/", "mcpServers": []}
        await at.say({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params})
        one = {"sessionId": (await at.hear())["result"]["sessionId"]}
        await at.say({"jsonrpc": "2.0", "id": 3, "method": "session/delete", "params": one})
        gone = await at.hear()
        await at.say({"jsonrpc": "2.0", "id": 4, "method": "session/list", "params": {}})

        assert can["sessionCapabilities"]["delete"] == {}
        assert gone["result"] == {}
        assert (await at.hear())["result"]["sessions"] == []


async def test_parameters_that_are_wrong_are_named_and_not_repeated() -> None:
    """The error says where, and not what was sent."""
    async with raw() as at:
        await at.say(INITIALIZE)
        await at.hear()
        params: dict[str, Any] = {"cwd": {"secret": "swordfish"}, "mcpServers": []}
        await at.say({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params})
        error = (await at.hear())["error"]

        assert error["code"] == -32602
        assert error["data"]["facts"]["faults"][0]["pointer"] == "/cwd"
        assert "swordfish" not in json.dumps(error)


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
