"""One listener for every server."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import httpx2
import pytest

from toolcrib.embedded.server import ProviderServer
from toolcrib.serving.listener import Listener, listening_socket
from toolcrib.transports.http.server import HttpServer

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


def test_the_runtime_and_the_provider_listen_in_one_way() -> None:
    """What holds for one server holds for the other."""
    assert issubclass(HttpServer, Listener)
    assert issubclass(ProviderServer, Listener)


def test_an_answer_is_sent_at_once() -> None:
    """A connection waits for no acknowledgement of the headers before it sends the body: a client
    that keeps its connection would wait 40 ms for each answer.
    """
    with listening_socket("127.0.0.1", 0) as listening:
        with socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_client_that_leaves_before_its_answer_breaks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is written to a closed connection, and the next client is served."""
    entered, left = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            entered.set()
            await left.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    server = Listener(app, "127.0.0.1", 0, max_message=1_000, drain_seconds=1.0)
    async with server, httpx2.AsyncClient(base_url=server.url) as client:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as leaving:
            leaving.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            await entered.wait()
        await asyncio.sleep(0.05)
        left.set()
        answer = await client.get("/quick")

    assert answer.text == "done"
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
