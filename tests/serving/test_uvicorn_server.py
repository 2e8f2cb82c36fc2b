"""The parts of uvicorn that are subclassed, and the clients that they cut off."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import resource
import select
import socket
from contextlib import closing
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import OWNERS, STREAM, Served, events_of, served
from toolcrib.calls.outcome import Limits
from toolcrib.serving.connections import ListenerLimits

BIG = "x" * 1_000_000
ROOMY = Limits(max_arguments_bytes=2_000_000, max_result_chars=2_000_000)
PROTOCOL_METHODS = (
    "connection_made",
    "connection_lost",
    "data_received",
    "pause_writing",
    "resume_writing",
)
HTTP_METHODS = (
    "on_message_begin",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    "send_400_response",
)
_HUNG_UP = select.POLLERR | select.POLLHUP


@pytest.mark.parametrize("protocol", [HttpToolsProtocol, WebSocketsSansIOProtocol])
def test_uvicorn_still_has_the_protocol_methods_that_are_extended(protocol: type[Any]) -> None:
    """A version of uvicorn without one of them would leave slow clients connected for ever."""
    missing = [name for name in PROTOCOL_METHODS if not callable(getattr(protocol, name, None))]

    assert missing == [], f"{protocol.__name__} of uvicorn {uvicorn.__version__} lacks {missing}"
    source = inspect.getsource(protocol.connection_made)
    assert "self.transport = " in source, f"{protocol.__name__} no longer keeps its transport"


def test_uvicorn_still_has_the_methods_that_bound_requests() -> None:
    """A renamed method would never be called: headers and bodies would have no limit."""
    missing = [
        name for name in HTTP_METHODS if not callable(getattr(HttpToolsProtocol, name, None))
    ]

    assert missing == [], f"HttpToolsProtocol of uvicorn {uvicorn.__version__} lacks {missing}"
    source = inspect.getsource(HttpToolsProtocol)
    for name in ("cycle", "flow", "pipeline", "client", "scope", "headers", "url"):
        part = f"self.{name}"
        assert f"{part} = " in source or f"{part}: " in source, f"there is no {part} any more"
    assert "self.send_400_response(" in source, "a broken request is answered elsewhere now"
    assert callable(getattr(WebSocketsSansIOProtocol, "handle_connect", None))


def test_uvicorn_still_has_the_server_methods_that_are_overridden() -> None:
    """A renamed method would never be called: the server would not report that it listens."""
    methods = ("capture_signals", "startup", "shutdown", "serve")
    missing = [name for name in methods if not callable(getattr(uvicorn.Server, name, None))]

    assert missing == [], f"uvicorn {uvicorn.__version__} lacks Server.{missing}"
    for name in ("startup", "shutdown"):
        parameters = list(inspect.signature(getattr(uvicorn.Server, name)).parameters)
        assert parameters == ["self", "sockets"], f"the parameters of Server.{name} have changed"
    source = inspect.getsource(uvicorn.Server)
    assert "self.servers" in source, "Server no longer keeps its listening sockets in servers"
    assert "with self.capture_signals()" in source, "Server.serve no longer calls capture_signals"


def head(it: Served, path: str, *more: str) -> bytes:
    address = it.server.url.removeprefix("http://")
    lines = [f"GET {path} HTTP/1.1", f"Host: {address}", f"Authorization: Bearer {OWNERS}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def connected(it: Served, asked: bytes) -> socket.socket:
    """A client that has asked, and has room for little."""
    host, port = it.server.url.removeprefix("http://").split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, int(port)))
    client.sendall(asked)
    return client


def text_frame(text: str) -> bytes:
    """A short masked frame, as a browser sends it; the mask of nothing but zeros is one."""
    payload = text.encode()
    assert len(payload) < 126
    return bytes([0x81, 0x80 | len(payload)]) + bytes(4) + payload


async def is_cut(client: socket.socket) -> bool:
    """Whether the server ends the connection, though nothing of what it sent is read."""
    poll = select.poll()
    poll.register(client, 0)
    told = await asyncio.to_thread(poll.poll, 20_000)
    return any(happened & _HUNG_UP for _, happened in told)


async def say_much(it: Served) -> None:
    for _ in range(8):
        body = {"arguments": {"text": BIG}}
        answer = await it.client.post("/v1/sessions/s/tools/echo/call", json=body)
        assert answer.json()["status"] == "completed"


async def test_a_stalled_stream_is_cut_and_can_be_resumed() -> None:
    """A reader of server-sent events that stops reading is cut; its place is not lost: it comes
    back with the last id it has, and misses nothing.
    """
    async with served(listener=ListenerLimits(stall_seconds=1.0), limits=ROOMY) as it:
        await it.session()
        asked = head(it, "/v1/sessions/s/events", "Accept: text/event-stream")
        with closing(connected(it, asked)) as client:
            await say_much(it)
            assert await is_cut(client)

        resumed: list[str] = []
        headers = {**STREAM, "Last-Event-ID": "1"}
        async with it.client.stream("GET", "/v1/sessions/s/events", headers=headers) as response:
            async for sent in events_of(response):
                if sent.id is not None:
                    resumed.append(sent.id)
                if len(resumed) == 16:
                    break

    assert resumed == [str(number) for number in range(2, 18)]


_OPEN = bytes([0x01, 0x81]) + bytes(4) + b"{"
_EMPTY = bytes([0x00, 0x80]) + bytes(4)


@pytest.mark.parametrize(
    ("listener", "frames"),
    [
        (ListenerLimits(body_seconds=0.5), _OPEN),
        (ListenerLimits(body_seconds=0.5), bytes([0x81, 0xFE, 0x10, 0x00]) + bytes(4) + b"{"),
        (ListenerLimits(), _OPEN + 20_000 * _EMPTY),
    ],
    ids=["an open message", "half a frame", "endless fragments"],
)
async def test_a_message_that_does_not_end_is_cut(listener: ListenerLimits, frames: bytes) -> None:
    """A WebSocket message that is never complete is not kept for ever; a socket that says nothing
    may stay.
    """
    key = base64.b64encode(bytes(16)).decode()
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    async with served(listener=listener) as it:
        asked = head(it, "/v1/ws", *upgrade, f"Sec-WebSocket-Key: {key}")
        with closing(connected(it, asked)) as silent, closing(connected(it, asked)) as client:
            for each in (silent, client):
                assert await asyncio.to_thread(each.recv, 12) == b"HTTP/1.1 101"
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            silent.sendall(text_frame(json.dumps(ping)))
            client.sendall(frames)
            assert await is_cut(client)
            poll = select.poll()
            poll.register(silent, 0)
            assert poll.poll(0) == []


async def test_a_stalled_socket_is_cut() -> None:
    """A WebSocket client that stops reading is cut, and others are served meanwhile."""
    key = base64.b64encode(bytes(16)).decode()
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    async with served(listener=ListenerLimits(stall_seconds=1.0), limits=ROOMY) as it:
        await it.session()
        params = {"session_id": "s"}
        subscribe = {"jsonrpc": "2.0", "id": 1, "method": "events.subscribe", "params": params}
        asked = head(it, "/v1/ws", *upgrade, f"Sec-WebSocket-Key: {key}")
        with closing(connected(it, asked)) as client:
            assert await asyncio.to_thread(client.recv, 12) == b"HTTP/1.1 101"
            client.sendall(text_frame(json.dumps(subscribe, separators=(",", ":"))))
            await say_much(it)
            assert await is_cut(client)


def resident_megabytes() -> float:
    """The memory of this process now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


async def test_a_socket_that_reads_nothing_is_cut_on_bytes() -> None:
    """Finding 24: answers that nobody reads are kept up to a number of bytes, however short the
    time: then the client is cut, and what waited for it is let go.
    """
    key = base64.b64encode(bytes(16)).decode()
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    listener = ListenerLimits(stall_seconds=600.0, unsent_bytes=10_000_000)
    async with served(listener=listener, limits=ROOMY) as it:
        await it.session()
        await say_much(it)
        before = resident_megabytes()
        asked = head(it, "/v1/ws", *upgrade, f"Sec-WebSocket-Key: {key}")
        with closing(connected(it, asked)) as client:
            assert await asyncio.to_thread(client.recv, 12) == b"HTTP/1.1 101"
            client.settimeout(PATIENCE)
            # Each answer is a page of the events so far: some megabytes.
            params = {"session_id": "s"}
            for number in range(100):
                call = {"jsonrpc": "2.0", "id": number, "method": "events.list", "params": params}
                try:
                    frame = text_frame(json.dumps(call, separators=(",", ":")))
                    await asyncio.to_thread(client.sendall, frame)
                except OSError:
                    break
            assert await is_cut(client)
        assert resident_megabytes() - before < 150


async def test_who_reads_is_not_cut() -> None:
    """Who reads, however much there is, is not taken for stalled."""
    async with served(listener=ListenerLimits(stall_seconds=5.0), limits=ROOMY) as it:
        await it.session()
        await say_much(it)
        seen = 0
        async with it.client.stream("GET", "/v1/sessions/s/events", headers=STREAM) as response:
            async for sent in events_of(response):
                seen += sent.id is not None
                if seen == 15:
                    break

    assert seen == 15
