"""A client of the handshake protocol that lost a stream gets what it missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCResponse

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import CALLERS, OWNERS, Served, served
from tests.transports.mcp.test_endpoint import BEGIN, JSON
from toolcrib.transports.mcp.stream_events import ResumableEvents, StreamEvents

pytestmark = pytest.mark.wire


@asynccontextmanager
async def begun(bench: Served, token: str = OWNERS) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client that has initialised."""
    headers = {**JSON, "Mcp-Protocol-Version": "2025-11-25", "Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(
        base_url=bench.server.url, headers=headers, timeout=PATIENCE
    ) as http:
        answer = await http.post("/mcp", json=BEGIN)
        http.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield http


async def messages(answer: httpx2.Response) -> AsyncGenerator[tuple[str, str]]:
    """The id and the data of each message of a stream."""
    event: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if not line and event:
            yield event.get("id", ""), event.get("data", "")
            event = {}
        key, _, value = line.partition(":")
        event[key] = value.strip()


def call(text: str) -> dict[str, Any]:
    params = {"name": "held_back", "arguments": {"text": text}}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


async def lost_call(bench: Served, http: httpx2.AsyncClient) -> str:
    """The id of the last message before the stream of a call broke."""
    async with http.stream("POST", "/mcp", json=call("at last")) as answer:
        event_id, data = await anext(messages(answer))
        async with asyncio.timeout(PATIENCE):
            await bench.gates.entered.wait()
    assert data == ""
    return event_id


async def test_the_answer_to_a_call_outlives_its_stream() -> None:
    """The call goes on, and its result comes on the stream that takes the lost one up."""
    async with served() as bench, begun(bench) as http:
        event_id = await lost_call(bench, http)
        bench.gates.open.set()
        resumed = {"Last-Event-ID": event_id}
        async with http.stream("GET", "/mcp", headers=resumed) as answer:
            found = [json.loads(data) async for _, data in messages(answer) if data]

    assert [each["id"] for each in found] == [7]
    assert found[0]["result"]["content"][0]["text"] == "at last"


@pytest.mark.parametrize("token", [OWNERS, CALLERS])
async def test_an_id_of_another_session_finds_nothing(token: str) -> None:
    """R51: neither another principal nor another session of the same one reads the messages."""
    async with served() as bench, begun(bench) as http, begun(bench, token) as other:
        event_id = await lost_call(bench, http)
        bench.gates.open.set()
        resumed = {"Last-Event-ID": event_id}
        async with other.stream("GET", "/mcp", headers=resumed) as answer:
            found = [data async for _, data in messages(answer) if data]

    assert found == []


@pytest.mark.parametrize("event_id", ["elsewhere-3", "nonsense", "0011223344556677-1"])
async def test_an_id_that_is_not_known_is_refused_clearly(event_id: str) -> None:
    """A client learns that it has to ask again, rather than wait for what never comes."""
    async with served() as bench, begun(bench) as http:
        answer = await http.get("/mcp", headers={"Last-Event-ID": event_id})

    assert answer.status_code == 422
    assert "send the request again" in answer.text


async def test_what_is_kept_is_bounded() -> None:
    """The oldest messages go first, and an id of them is not known any more."""
    events = StreamEvents(most_chars=5_000)
    session = events.session()
    last = first = await session.store_event("1", None)
    for number in range(20):
        last = await session.store_event("1", _answer(number, "x" * 100))

    assert not events.has(first)
    assert events.has(last)


async def test_messages_of_one_stream_come_in_order_and_once() -> None:
    """Another stream of the session is not taken up with it."""
    events = StreamEvents()
    session: ResumableEvents = events.session()
    begin = await session.store_event("1", None)
    await session.store_event("2", _answer(2, "the other"))
    await session.store_event("1", _answer(1, "mine"))
    sent: list[EventMessage] = []

    async def send(event: EventMessage) -> None:
        sent.append(event)

    is_open = await session.replay_events_after(begin, send)

    assert is_open is None
    assert [getattr(event.message, "id", None) for event in sent] == [1]
    assert sent[0].event_id is not None
    assert events.has(sent[0].event_id)


def _answer(number: int, text: str) -> JSONRPCResponse:
    content = [{"type": "text", "text": text}]
    return JSONRPCResponse(jsonrpc="2.0", id=number, result={"content": content})
