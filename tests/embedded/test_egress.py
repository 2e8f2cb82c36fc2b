"""What a request to the provider may have it connect to, and what it hears of the answer."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.embedded.backends.chat_server import ChatServer, chat_server
from tests.embedded.principals import shared_provider
from toolcrib.embedded import BackendText, EmbeddedProvider
from toolcrib.embedded.backends.chat import ChatBackend
from toolcrib.embedded.web import image

Json = dict[str, Any]
BODY = '{"internal": "AKIA-SECRET-BODY"}'
PIXEL = b"\x89PNG-pixel"


class InternalServer:
    """A service of the internal network: what it was asked, and where it redirects to."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.paths: list[str] = []
        self.redirect: str | None = None


@contextmanager
def internal_server() -> Generator[InternalServer]:
    """A service on loopback that answers everybody with its secret, or with an image."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            service.paths.append(self.path)
            is_image = self.path.endswith(".png")
            data = PIXEL if is_image else BODY.encode()
            self.send_response(200 if service.redirect is None else 307)
            self.send_header("Content-Type", "image/png" if is_image else "application/json")
            self.send_header("Content-Length", str(len(data)))
            if service.redirect is not None:
                self.send_header("Location", service.redirect)
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    service = InternalServer(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def internal() -> Iterator[InternalServer]:
    with internal_server() as service:
        yield service


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with chat_server() as server:
        server.says({"content": "seen"})
        yield server


def alone(request: object) -> list[BackendText]:
    return [BackendText("alone")]


def mcp_request(url: str, **more: Any) -> Json:
    tool = {"type": "mcp", "server_label": "x", "server_url": url, **more}
    return {"model": "puppet", "input": "go", "tools": [tool]}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1", "localhost", "127.1"],
)
async def test_no_mcp_address_leads_inside(
    internal: InternalServer, caplog: pytest.LogCaptureFixture, host: str
) -> None:
    """Every spelling of an internal address is refused without a connection, and neither the
    answer nor the log tells more than that.
    """
    caplog.set_level(logging.DEBUG)
    async with shared_provider(alone) as shared:
        url = f"http://{host}:{internal.port}/latest"
        answer = await shared.send("alice", "POST", "/responses", json=mcp_request(url))
    assert answer.status_code == 200
    [listed, _] = answer.json()["output"]
    assert "no address that may be connected to" in listed["error"]
    assert internal.paths == []
    assert "AKIA" not in answer.text + caplog.text


async def test_an_answer_that_is_not_mcp_is_repeated_nowhere(
    internal: InternalServer, caplog: pytest.LogCaptureFixture
) -> None:
    """An address that the host allows is asked, and a body that is no MCP reaches neither the
    caller nor the log.
    """
    caplog.set_level(logging.INFO)
    async with shared_provider(alone, allow_egress=[f"127.0.0.1:{internal.port}"]) as shared:
        url = f"http://127.0.0.1:{internal.port}/latest"
        answer = await shared.send("alice", "POST", "/responses", json=mcp_request(url))
    [listed, _] = answer.json()["output"]
    assert internal.paths
    assert listed["error"] == "the address does not answer as an MCP server"
    assert "AKIA" not in answer.text + caplog.text


async def test_a_redirect_leads_nowhere_else(internal: InternalServer) -> None:
    """An allowed address cannot send the connection on to one that is not allowed."""
    with internal_server() as other:
        internal.redirect = f"http://127.0.0.1:{other.port}/latest"
        async with shared_provider(alone, allow_egress=[f"127.0.0.1:{internal.port}"]) as shared:
            url = f"http://127.0.0.1:{internal.port}/latest"
            answer = await shared.send("alice", "POST", "/responses", json=mcp_request(url))
    assert internal.paths
    assert other.paths == []
    assert "AKIA" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "internal.example"},
        {"Connection": "upgrade"},
        {"transfer-encoding": "chunked"},
        {"Content-Length": "0"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Mcp-Session-Id": "hers"},
        {"Proxy-Authorization": "Basic eA=="},
        {"x": "a\r\nHost: internal.example"},
        {"a b": "c"},
        {"x": "y" * 20_000},
        {f"x-{n}": "y" for n in range(40)},
    ],
)
async def test_headers_that_steer_the_connection_are_refused(headers: dict[str, str]) -> None:
    """A caller's headers may name the caller, not where or how the request goes."""
    async with shared_provider(alone) as shared:
        body = mcp_request("https://desk.example/mcp", headers=headers)
        answer = await shared.send("alice", "POST", "/responses", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools[0].headers"


def image_request(url: str) -> Json:
    parts = [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": url}]
    return {"model": "mine", "input": [{"role": "user", "content": parts}]}


async def answered(chat: ChatServer, url: str, *allowed: str) -> Json:
    """The response of a provider whose model reads images."""
    backend = ChatBackend("m", base_url=chat.base_url, name="mine", retries=0)
    async with EmbeddedProvider(backend, allow_egress=allowed) as provider:
        response = await provider.client().responses.create(**image_request(url))
        return response.model_dump()


async def test_no_image_leads_inside(chat: ChatServer, internal: InternalServer) -> None:
    """Neither the provider nor the chat endpoint is sent to an internal address by an image."""
    url = f"http://127.0.0.1:{internal.port}/a.png"
    response = await answered(chat, url)
    assert response["status"] == "failed"
    assert "no address that may be connected to" in response["error"]["message"]
    assert (internal.paths, chat.requests) == ([], [])


async def test_an_image_is_fetched_here(chat: ChatServer, internal: InternalServer) -> None:
    """The chat endpoint gets the image itself, never an address of the caller's choice."""
    url = f"http://127.0.0.1:{internal.port}/a.png"
    response = await answered(chat, url, "127.0.0.1")
    assert response["status"] == "completed"
    [request] = chat.requests
    picture = request["messages"][-1]["content"][-1]["image_url"]["url"]
    assert picture == f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"


async def test_what_is_no_image_is_not_repeated(
    chat: ChatServer, internal: InternalServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A body that is no image reaches neither the model nor the caller nor the log."""
    response = await answered(chat, f"http://127.0.0.1:{internal.port}/latest", "127.0.0.1")
    assert response["error"]["message"] == "An image_url is not the address of an image."
    assert "AKIA" not in str(response) + caplog.text
    assert chat.requests == []


async def test_an_image_is_not_fetched_past_a_redirect(
    chat: ChatServer, internal: InternalServer
) -> None:
    """Every step of a redirect is checked like the first address."""
    with internal_server() as other:
        internal.redirect = f"http://127.0.0.1:{other.port}/a.png"
        url = f"http://127.0.0.1:{internal.port}/a.png"
        response = await answered(chat, url, f"127.0.0.1:{internal.port}")
    assert response["status"] == "failed"
    assert (len(internal.paths), other.paths) == (1, [])


async def test_the_images_of_a_request_are_bounded_together(
    chat: ChatServer, internal: InternalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty large images would fill the memory that one image may not."""
    monkeypatch.setattr(image, "MAX_BYTES_IN_ALL", 2 * len(PIXEL))
    body = image_request(f"http://127.0.0.1:{internal.port}/1.png")
    parts = body["input"][0]["content"]
    for number in (2, 3):
        url = f"http://127.0.0.1:{internal.port}/{number}.png"
        parts.append({"type": "input_image", "image_url": url})
    allowed = [f"127.0.0.1:{internal.port}"]
    backend = ChatBackend("m", base_url=chat.base_url, name="mine", retries=0)
    async with EmbeddedProvider(backend, allow_egress=allowed) as provider:
        response = await provider.client().responses.create(**body)
    assert response.status == "failed"
    assert response.error is not None
    assert "all images together" in response.error.message
    assert chat.requests == []
