"""A server on this machine that plays a script, each answer in the form that is asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from tests.adapters.pydantic_ai.codecs.loopback_server import REFUSAL, Reply
from tests.adapters.pydantic_ai.wire.traffic import Json


class Line(Protocol):
    """One answer, in both of its forms."""

    @property
    def blocking(self) -> Reply: ...

    @property
    def streamed(self) -> Reply: ...


@dataclass(slots=True)
class Stage:
    """The server: what it says next, and what it was asked."""

    url: str
    script: list[Line] = field(default_factory=list[Line])
    asked: list[Json] = field(default_factory=list[Json])
    is_streamed: list[bool] = field(default_factory=list[bool])
    pieces: Callable[[bytes], Iterator[bytes]] | None = None
    """Cuts the bytes of a reply into the chunks in which it is sent; None sends it whole."""

    def play(self, script: Sequence[Line]) -> None:
        """Begin anew, with this script."""
        self.script = list(script)
        self.asked, self.is_streamed = [], []

    def answer(self, path: str, body: Json) -> Reply:
        """The next reply, as a stream if that is what was asked for."""
        is_streamed = body.get("stream") is True or "stream" in path.lower()
        self.asked.append(body)
        self.is_streamed.append(is_streamed)
        if not self.script:
            return REFUSAL
        line = self.script.pop(0)
        return line.streamed if is_streamed else line.blocking


@contextmanager
def stage() -> Generator[Stage]:
    """A running server."""
    made = Stage("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body: Any = json.loads(self.rfile.read(length) or b"{}")
            reply = made.answer(self.path, body)
            # Connections that stay open would keep the server's threads alive after the test.
            self.close_connection = True
            self.send_response(reply.status)
            self.send_header("connection", "close")
            self.send_header("content-type", reply.content_type)
            if made.pieces is None or reply.status != 200:
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
                return
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for piece in made.pieces(reply.body):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
