"""The socket speaks the same JSON-RPC as standard input and output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.client.test_chat import RUN
from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import model
from tests.transports.http.served_runtime import CALLERS, OWNERS, Served, served
from toolcrib.testing import says
from toolcrib.tools.code_interpreter import code_interpreter_tool


class Speaker:
    """A client of the socket."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.socket = socket
        self._count = 0
        self.told: list[dict[str, Any]] = []

    async def say(self, method: str, **params: Any) -> int:
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        await self.socket.send(json.dumps(message))
        return self._count

    async def hear(self, request_id: int) -> dict[str, Any]:
        """The answer to a request; what comes before it is kept in `told`."""
        while True:
            message = json.loads(await self.socket.recv())
            if message.get("id") == request_id and "method" not in message:
                return message
            self.told.append(message)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.hear(await self.say(method, **params))


@asynccontextmanager
async def speaking(crib: Served, token: str = OWNERS) -> AsyncGenerator[Speaker]:
    uri = crib.server.url.replace("http", "ws") + "/v1/ws"
    async with connect(uri, additional_headers=crib.as_(token), proxy=None) as socket:
        yield Speaker(socket)


async def test_the_socket_answers_operations() -> None:
    """R36: a session is made and a tool called, with the answers of REST."""
    async with served() as crib, speaking(crib) as speaker:
        await speaker.ask("session.create", session_id="s")
        done = await speaker.ask(
            "tools.call", session_id="s", name="echo", arguments={"text": "hé"}
        )
        unknown = await speaker.ask("no.such")

    assert done["result"]["value"] == {"echo": "hé"}
    assert unknown["error"]["code"] == -32601


async def test_the_socket_answers_others_while_a_call_runs() -> None:
    """R39: ping and cancel are answered on the same connection during a call."""
    async with served() as crib, speaking(crib) as speaker:
        await speaker.ask("session.create", session_id="s")
        call = await speaker.say(
            "tools.call", session_id="s", name="held_back", arguments={"text": "x"}, call_id="c"
        )
        await crib.gates.entered.wait()
        pong = await speaker.ask("ping")
        cancelled = await speaker.ask("tools.cancel", session_id="s", call_id="c")
        answers = [each for each in speaker.told if each.get("id") == call]
        answer = answers[0] if answers else await speaker.hear(call)

    assert pong["result"] == {}
    assert cancelled["result"] == {"was_running": True}
    assert answer["result"]["failure"]["kind"] == "cancelled"


async def test_events_go_on_after_a_cursor_on_a_new_socket() -> None:
    """A client that comes back subscribes after the last event it has, and misses none."""
    async with served() as crib:
        await crib.session()
        call = {"session_id": "s", "name": "echo", "arguments": {"text": "a"}}
        async with speaking(crib) as first:
            await first.ask("events.subscribe", session_id="s", after=0)
            one = json.loads(await first.socket.recv())["params"]
        await crib.client.post("/v1/sessions/s/tools/echo/call", json={"arguments": {"text": "b"}})
        async with speaking(crib) as second:
            await second.ask("events.subscribe", session_id="s", after=one["seq"])
            await second.ask("tools.call", **call)
            last = (await second.ask("session.get", session_id="s"))["result"]["last_seq"]
            events = [each["params"]["seq"] for each in second.told if each["method"] == "event"]
            while events[-1] < last:
                events.append(json.loads(await second.socket.recv())["params"]["seq"])

    assert events == list(range(one["seq"] + 1, last + 1))


async def test_a_call_only_principal_cannot_approve_over_the_socket() -> None:
    """R42: roles hold on the socket as they do on the routes."""
    async with served() as crib, speaking(crib, CALLERS) as speaker:
        await speaker.ask("session.create", session_id="caller:s")
        waits = await speaker.ask(
            "tools.call", session_id="caller:s", name="careful", arguments={"text": "a"}
        )
        decided = await speaker.ask(
            "approvals.decide", approval_id=waits["result"]["approval_id"], decision="approve"
        )

    assert decided["error"]["data"]["kind"] == "forbidden"
    assert crib.gates.calls == []


async def test_frames_that_are_no_messages_do_not_end_the_socket() -> None:
    """Nonsense is answered with an error, and what comes after it as ever."""
    async with served() as crib, speaking(crib) as speaker:
        for nonsense in ("", "{", "[]", "null", '{"jsonrpc": "2.0"}', "\x00", "9" * 5_000):
            await speaker.socket.send(nonsense)
        pong = await speaker.ask("ping")

    assert pong["result"] == {}
    assert len(speaker.told) == 7


async def test_binary_and_oversized_frames_close_the_socket() -> None:
    """What the protocol does not have is not taken, with the code that says so."""
    async with served(max_payload_bytes=1_000) as crib:
        codes: list[int] = []
        for frame in (b"{}", "x" * 2_000):
            async with speaking(crib) as speaker:
                await speaker.socket.send(frame)
                with pytest.raises(ConnectionClosed):
                    await speaker.socket.recv()
                codes.append(speaker.socket.close_code or 0)

    assert codes == [1003, 1009]


async def test_leaving_the_socket_does_not_cancel_the_call() -> None:
    """Disconnecting is not cancelling."""
    async with served() as crib:
        await crib.session()
        call = {"session_id": "s", "name": "held_back", "arguments": {"text": "late"}}
        async with speaking(crib) as speaker:
            await speaker.say("tools.call", **call, idempotency_key="k")
            await crib.gates.entered.wait()
        crib.gates.open.set()
        async with speaking(crib) as speaker:
            again = await speaker.ask("tools.call", **call, idempotency_key="k")

    assert again["result"]["value"] == "late"


async def test_a_client_runs_its_own_tool_over_the_socket() -> None:
    """R49: the client that brought a tool is asked to run it, and its value is the result."""
    async with served() as crib, speaking(crib) as speaker:
        tool = {"name": "ide", "description": "Ask the IDE", "parameters": {"type": "object"}}
        await speaker.ask("session.create", session_id="s", client_tools=[tool])
        call = await speaker.say("tools.call", session_id="s", name="ide", arguments={})
        asked = json.loads(await speaker.socket.recv())
        await speaker.socket.send(
            json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"line": 7}})
        )
        answer = await speaker.hear(call)

    assert asked["method"] == "client.call"
    assert answer["result"]["value"] == {"line": 7}


async def test_a_closing_server_answers_what_the_socket_asked() -> None:
    """Shutdown drains: the running call is answered before the socket closes."""
    async with served() as crib, speaking(crib) as speaker:
        await speaker.ask("session.create", session_id="s")
        call = await speaker.say(
            "tools.call", session_id="s", name="held_back", arguments={"text": "kept"}
        )
        await crib.gates.entered.wait()
        crib.server.stop()
        closing = json.loads(await speaker.socket.recv())
        crib.gates.open.set()
        answer = await speaker.hear(call)
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(speaker.socket.recv(), PATIENCE)

    assert closing["method"] == "runtime.closing"
    assert answer["result"]["value"] == "kept"


async def test_what_the_provider_runs_is_seen_on_the_socket() -> None:
    """Progress of hosted tools comes with its content, and is not kept."""
    adapter = model([RUN, says("Done.")])
    tools: list[Any] = [code_interpreter_tool()]
    async with (
        served(adapter=adapter, hosted_tools=tools) as crib,
        speaking(crib) as speaker,
    ):
        await speaker.ask("session.create", session_id="s")
        await speaker.ask("events.subscribe", session_id="s")
        await speaker.ask("prompt.send", session_id="s", text="Go!")
        await speaker.ask("ping")

    events = [each["params"] for each in speaker.told if each.get("method") == "event"]
    progress = [each for each in events if each["kind"] == "model.hosted_progress"]
    assert {each["data"]["call_id"] for each in progress} == {"ci_1"}
    assert "".join(each["data"]["code"] or "" for each in progress) == "print(1)"
    assert not any(each["is_kept"] for each in progress)
