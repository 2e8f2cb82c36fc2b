"""An agent on two pipes: its lines, its errors, its end."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from acp.exceptions import RequestError

from tests.helpers.patience import PATIENCE
from tests.transports.acp.connected_editor import wired_desk
from tests.transports.acp.editor import why
from tests.transports.acp.shop_agent import scripted
from tests.transports.shop import shop
from toolcrib.runtime.runtime import Runtime
from toolcrib.transports.acp import server
from toolcrib.transports.acp.server import serve_acp
from toolcrib.transports.pipes import Pipes

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}


class Raw:
    """An agent, line by line, with nothing of the SDK's in between."""

    def __init__(self, runtime: Runtime) -> None:
        to_agent, to_editor = os.pipe(), os.pipe()
        self._writes, self._reads = to_agent[1], os.fdopen(to_editor[0], "rb")
        self.served = asyncio.ensure_future(serve_acp(runtime, Pipes(to_agent[0], to_editor[1])))

    async def write(self, line: bytes) -> None:
        await asyncio.to_thread(os.write, self._writes, line + b"\n")

    async def say(self, message: Any) -> None:
        await self.write(json.dumps(message).encode())

    async def hear(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            return json.loads(await asyncio.to_thread(self._reads.readline))

    async def end(self) -> bytes:
        """Close its input, and wait for its end; what else it wrote."""
        if not self.served.done():
            os.close(self._writes)
            await self.served
        return self._reads.read()

    def close(self) -> None:
        self._reads.close()


@asynccontextmanager
async def raw(**changes: Any) -> AsyncGenerator[Raw]:
    at = Raw(shop(**changes))
    try:
        yield at
    finally:
        await at.end()
        at.close()


async def test_what_is_no_message_is_answered_and_the_next_one_is_read() -> None:
    """Lines that are no JSON, too long, batches or answers to nothing do not end the connection."""
    async with raw(max_payload_bytes=20_000) as at:
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
        assert await at.end() == b""


def noise(count: int) -> list[bytes]:
    """Messages that a bit of chance went through; none is a request for what takes long."""
    chance = random.Random(7)
    sound = [
        json.dumps({"jsonrpc": "2.0", "id": 5, "method": method, "params": {"sessionId": "x"}})
        for method in ("session/load", "session/cancel", "session/prompt", "_toolcrib/tools.call")
    ]
    found: list[bytes] = []
    for _ in range(count):
        line = bytearray(chance.choice(sound).encode())
        for _ in range(chance.randrange(4)):
            line[chance.randrange(len(line))] = chance.choice(b'"{}[]:,0ax\\\xff\x00')
        found.append(bytes(line[: chance.randrange(1, len(line) + 1)]))
    return found


async def test_noise_does_not_end_the_connection() -> None:
    """Whatever comes, the next request is answered."""
    async with raw() as at:
        await at.say(INITIALIZE)
        await at.hear()
        await at.write(b"\n".join(noise(200)))
        await at.say({"jsonrpc": "2.0", "id": "last", "method": "session/list", "params": {}})

        while (heard := await at.hear()).get("id") != "last":
            assert "error" in heard
        assert heard["result"] == {"sessions": []}


async def test_calls_in_flight_are_bounded_and_can_be_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One too many is refused; what ends the others is not."""
    monkeypatch.setattr(server, "MAX_LONG", 1)
    async with wired_desk(shop()) as at:
        session_id = await at.open()
        call = {"session_id": session_id, "name": "endless", "call_id": "one"}
        running = asyncio.ensure_future(at.ask("tools.call", **call))
        await asyncio.sleep(0)

        with pytest.raises(RequestError) as told:
            await at.ask("tools.call", **call | {"call_id": "two"})
        assert why(told.value) == "unavailable"
        await at.ask("tools.cancel", session_id=session_id, call_id="one")
        assert (await running)["failure"]["kind"] == "cancelled"


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


async def test_a_prompt_is_cancelled_by_the_id_of_its_request() -> None:
    """`$/cancel_request` ends the prompt that it names; one that names nothing is ignored."""
    async with raw(adapter=scripted("guarded")) as at:
        await at.say(INITIALIZE)
        await at.hear()
        params: dict[str, Any] = {"cwd": "/", "mcpServers": []}
        await at.say({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params})
        session_id = (await at.hear())["result"]["sessionId"]
        prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "Greet Bob."}]}
        await at.say({"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": prompt})
        while (await at.hear())["method"] != "session/request_permission":
            pass
        ids: list[Any] = [None, [], "other", "p"]
        for named in ids:
            cancel: dict[str, Any] = {"method": "$/cancel_request", "params": {"requestId": named}}
            await at.say({"jsonrpc": "2.0", **cancel})

        while (heard := await at.hear()).get("id") != "p":
            pass
        assert heard["result"]["stopReason"] == "cancelled"


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
