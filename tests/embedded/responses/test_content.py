"""Files and images of messages: what the backend gets of them, and what is refused."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError

from tests.embedded.backends.chat_server import chat_server
from tests.embedded.scripted_provider import Puppet, function, scripted, served
from tests.embedded.search.test_documents import pdf
from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
)
from toolcrib.embedded.backends.chat import ChatBackend
from toolcrib.embedded.responses import content

pytestmark = pytest.mark.wire

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
PIXEL_URL = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"


def quiet(request: BackendRequest) -> Sequence[BackendOutput]:
    return [BackendText("ok")]


def message(*parts: Any) -> Any:
    return [{"role": "user", "content": [{"type": "input_text", "text": "read"}, *parts]}]


def said(puppet: Puppet) -> BackendMessage:
    last = puppet.requests[-1].history[-1]
    assert isinstance(last, BackendMessage)
    return last


def encoded(data: bytes, kind: str = "") -> str:
    text = base64.b64encode(data).decode()
    return f"data:{kind};base64,{text}" if kind else text


@contextmanager
def web_file(data: bytes, kind: str) -> Generator[str]:
    """A file at an address on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/files/notes"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_the_text_of_a_pdf_reaches_the_backend_page_by_page() -> None:
    """An uploaded PDF stands in its place of the message, also when the conversation goes on."""
    data = pdf("Cats purr.", "Dogs bark.")
    async with served(quiet) as (client, puppet):
        file = await client.files.create(file=("pets.pdf", data), purpose="user_data")
        parts: Any = message({"type": "input_file", "file_id": file.id})
        first = await client.responses.create(model="puppet", input=parts)
        text = said(puppet).text
        await client.responses.create(
            model="puppet", input="and now?", previous_response_id=first.id
        )
        again = puppet.requests[-1].history[0]
        listed = [item async for item in client.responses.input_items.list(first.id)]
        count = await client.responses.input_tokens.count(model="puppet", input=parts)
    assert text.splitlines() == [
        "read",
        "[file pets.pdf]",
        "[page 1]",
        "Cats purr.",
        "",
        "[page 2]",
        "Dogs bark.",
        "[end of file pets.pdf]",
    ]
    assert again == BackendMessage("user", text)
    item: Any = listed[0].to_dict()
    assert item["content"][1] == {"type": "input_file", "file_id": file.id}
    assert count.input_tokens > len(text) // 4


@pytest.mark.parametrize(
    ("part", "lines"),
    [
        (
            {"filename": "t.csv", "file_data": encoded(b"a,b\n1,2\n")},
            ["[file t.csv]", "a,b", "1,2"],
        ),
        (
            {"file_data": encoded(b"<title>T</title><nav>x</nav><p>Open.</p>", "text/html")},
            ["[file file.html]", "Open."],
        ),
        (
            {"filename": "a.txt", "file_data": "data:text/plain,one%20two"},
            ["[file a.txt]", "one two"],
        ),
        ({"filename": "../b/c.md", "file_data": encoded(b"# H")}, ["[file c.md]", "# H"]),
    ],
)
async def test_a_file_may_come_with_the_request(part: Any, lines: list[str]) -> None:
    """By its name or its media type it is read; a table stays a table."""
    async with served(quiet) as (client, puppet):
        await client.responses.create(model="puppet", input=message({"type": "input_file", **part}))
    assert [line for line in said(puppet).text.splitlines()[1:-1] if line] == lines


async def test_a_file_is_fetched_under_the_egress_policy() -> None:
    """The provider fetches it where it may connect to, and else names the refusal."""
    with web_file(b"Meet at nine.", "text/plain; charset=utf-8") as url:
        part = {"type": "input_file", "file_url": url}
        async with served(quiet) as (client, puppet):
            await client.responses.create(model="puppet", input=message(part))
            assert said(puppet).text == "read\n[file notes]\nMeet at nine.\n[end of file notes]"
        async with served(quiet, allow_egress=[]) as (client, puppet):
            with pytest.raises(BadRequestError, match="A file was not fetched") as refused:
                await client.responses.create(model="puppet", input=message(part))
            assert (refused.value.param, puppet.requests) == ("input.file_url", [])


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ({"filename": "a.docx", "file_data": encoded(b"PK")}, r"type '\.docx' cannot be read here"),
        ({"file_data": encoded(b"PK", "application/zip")}, "type 'application/zip' cannot be read"),
        ({"filename": "a.pdf", "file_data": encoded(b"no pdf")}, r"'a\.pdf' cannot be read: it is"),
        ({"filename": "a.pdf", "file_data": "%%%"}, "must be base64"),
        ({"filename": "a.txt", "file_data": encoded(b" ")}, "there is no text in it"),
        ({}, "needs 'file_id', 'file_data' or 'file_url'"),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused_by_its_type(part: Any, fault: str) -> None:
    """Nothing is answered as if the file had been read."""
    async with served(quiet) as (client, puppet):
        with pytest.raises(BadRequestError, match=fault) as refused:
            await client.responses.create(
                model="puppet", input=message({"type": "input_file", **part})
            )
    assert (refused.value.param or "").startswith("input[0].content[1]")
    assert puppet.requests == []


async def test_a_missing_file_is_missing() -> None:
    """So is one that was deleted."""
    async with served(quiet) as (client, _):
        file = await client.files.create(file=("a.txt", b"x"), purpose="user_data")
        parts: Any = message({"type": "input_file", "file_id": file.id})
        await client.responses.create(model="puppet", input=parts)
        await client.files.delete(file.id)
        with pytest.raises(NotFoundError) as refused:
            await client.responses.create(model="puppet", input=parts)
    assert refused.value.param == "input[0].content[1].file_id"


async def test_files_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number and their text, of the whole conversation."""
    part = {"type": "input_file", "filename": "a.txt", "file_data": encoded(b"0123456789")}
    async with served(quiet) as (client, _):
        with pytest.raises(BadRequestError, match="at most 20 files"):
            await client.responses.create(model="puppet", input=message(*[part] * 21))
        monkeypatch.setattr(content, "MAX_CHARACTERS", 15)
        first = await client.responses.create(model="puppet", input=message(part))
        with pytest.raises(BadRequestError, match="search them with file_search"):
            await client.responses.create(
                model="puppet", input=message(part), previous_response_id=first.id
            )


async def test_the_files_of_a_request_have_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never answers holds up nobody for long."""
    monkeypatch.setattr(content, "CONTENT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/a.txt"
        part = {"type": "input_file", "file_url": address}
        async with served(quiet) as (client, puppet):
            with pytest.raises(BadRequestError, match=r"takes more than 0\.05 seconds"):
                await client.responses.create(model="puppet", input=message(part))
    assert puppet.requests == []


async def test_an_uploaded_image_reaches_a_model_that_sees() -> None:
    """Its format is what its bytes say; another file is refused."""
    async with served(quiet) as (client, puppet):
        image = await client.files.create(file=("a.bin", PIXEL), purpose="vision")
        text = await client.files.create(file=("a.png", b"no image"), purpose="vision")
        part: Any = {"type": "input_image", "detail": "auto"}
        await client.responses.create(model="puppet", input=message({**part, "file_id": image.id}))
        for wrong, fault in (({"file_id": text.id}, "is no PNG"), ({}, "needs an 'image_url'")):
            with pytest.raises(BadRequestError, match=fault):
                await client.responses.create(model="puppet", input=message({**part, **wrong}))
    assert said(puppet) == BackendMessage("user", "read", (PIXEL_URL,))


async def test_an_image_for_a_model_that_does_not_see_is_refused() -> None:
    """A scripted answer is not given as if the image had been seen, unless it is written for it."""
    scenario = "name: s\nturns:\n  - steps:\n      - say: A cat.\n"
    part = {"type": "input_image", "image_url": PIXEL_URL, "detail": "auto"}
    async with EmbeddedProvider(scripted(scenario)) as provider:
        with pytest.raises(BadRequestError, match="does not read images") as refused:
            await provider.client().responses.create(model="s", input=message(part))
    assert refused.value.param == "input[0].content[1]"
    async with EmbeddedProvider(scripted(f"reads_images: true\n{scenario}")) as provider:
        response = await provider.client().responses.create(model="s", input=message(part))
    assert response.output_text == "A cat."


async def test_a_chat_endpoint_gets_the_images_of_results() -> None:
    """They follow the results, of which an endpoint takes only text."""
    items: Any = [
        {"role": "user", "content": "look"},
        {"type": "function_call", "call_id": "c1", "name": "see", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "see", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "here"},
                {"type": "input_image", "image_url": PIXEL_URL},
                {"type": "input_file", "filename": "a.txt", "file_data": encoded(b"inside")},
            ],
        },
        {"type": "function_call_output", "call_id": "c2", "output": "nothing"},
    ]
    with chat_server() as chat:
        chat.says({"content": "ok"})
        backend = ChatBackend("m", base_url=chat.base_url, retries=0)
        async with EmbeddedProvider(backend) as provider:
            await provider.client().responses.create(
                model="m", input=items, tools=[function("see")]
            )
    messages = chat.requests[0]["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[2]["content"] == "here\n[file a.txt]\ninside\n[end of file a.txt]"
    assert messages[4]["content"][1] == {"type": "image_url", "image_url": {"url": PIXEL_URL}}


async def test_a_result_has_its_images() -> None:
    """A backend of your own gets them with the result."""
    items: Any = [
        {"type": "function_call", "call_id": "c1", "name": "see", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_image", "image_url": PIXEL_URL}],
        },
    ]
    async with served(quiet) as (client, puppet):
        await client.responses.create(model="puppet", input=items)
    result = puppet.requests[0].history[1]
    assert result == BackendCallResult("c1", "see", "", images=(PIXEL_URL,))
