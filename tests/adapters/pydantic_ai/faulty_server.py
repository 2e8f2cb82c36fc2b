"""A provider on the loopback interface that says what its script says, and fails as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast

from tests.adapters.pydantic_ai.codecs.loopback_server import Reply as Encoded
from tests.adapters.pydantic_ai.wire.traffic import Json
from tests.helpers.patience import PATIENCE


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON reply that is no answer: an error, with the headers that come with it."""

    body: Any
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Cut:
    """An answer of which a part arrives. The line is lost then, or closed as if all was said."""

    body: Json
    share: float = 0.5
    is_lost: bool = True


@dataclass(frozen=True, slots=True)
class Text:
    """A reply that is whatever it is: broken JSON, a proxy's page."""

    text: str
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Dropped:
    """The connection is closed without a reply."""


@dataclass(frozen=True, slots=True)
class Silence:
    """No reply until the client goes away."""


Reply = Body | Cut | Text | Dropped | Silence


@dataclass(frozen=True, slots=True)
class Asked:
    """What the server was asked."""

    path: str
    headers: Mapping[str, str]
    body: Json

    @property
    def is_streamed(self) -> bool:
        return self.body.get("stream") is True or "stream" in self.path.lower()


class Server:
    """Serves its replies in order and remembers the requests. Use it as a context manager.

    `stream_of` makes the stream that stands for a whole answer.
    """

    def __init__(self, stream_of: Callable[[Json], Encoded], *replies: Json | Reply) -> None:
        self.stream_of = stream_of
        self.replies: list[Json | Reply] = list(replies)
        self.requests: list[Asked] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Listener(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def bodies(self) -> list[Json]:
        """The bodies of all requests, in order."""
        return [request.body for request in self.requests]

    def add(self, *replies: Json | Reply) -> None:
        """Go on with these replies."""
        with self._lock:
            self.replies += replies

    def answer(self, request: Asked) -> tuple[int, Json | Reply]:
        """The reply to a request, and its number."""
        with self._lock:
            self.requests.append(request)
            over = Body({"error": {"message": "the script is over"}}, 400)
            return len(self.requests), self.replies.pop(0) if self.replies else over


class _Listener(ThreadingHTTPServer):
    # Joined at the end, so that no test leaves a thread behind.
    daemon_threads = False

    def __init__(self, book: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.book = book


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.path, headers, json.loads(raw or b"{}"))
        book = cast("_Listener", self.server).book
        number, reply = book.answer(asked)
        # Connections that stay open would keep the server's threads alive after the test.
        self.close_connection = True
        match reply:
            case Body(body, status, extra):
                self._send(number, Encoded(json.dumps(body).encode(), status=status), extra)
            case Cut(body, share, is_lost):
                self._send_part(number, _encoded(book, asked, body), share, is_lost=is_lost)
            case Text(text, content_type):
                self._send(number, Encoded(text.encode(), content_type), {})
            case Dropped():
                pass
            case Silence():
                book.closing.wait(PATIENCE)
            case dict():
                self._send(number, _encoded(book, asked, reply), {})

    def _send(self, number: int, reply: Encoded, extra: Mapping[str, str]) -> None:
        self._start(number, reply, {"content-length": str(len(reply.body)), **extra})
        self.wfile.write(reply.body)

    def _send_part(self, number: int, reply: Encoded, share: float, *, is_lost: bool) -> None:
        self._start(number, reply, {"transfer-encoding": "chunked"})
        part = reply.body[: int(len(reply.body) * share)]
        if reply.content_type == "text/event-stream":
            # What is half said is no event.
            part = part[: part.rfind(b"\n\n") + 2]
        self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        if not is_lost:
            self.wfile.write(b"0\r\n\r\n")

    def _start(self, number: int, reply: Encoded, headers: Mapping[str, str]) -> None:
        self.send_response(reply.status)
        told = {"content-type": reply.content_type, "connection": "close", **headers}
        ids = {"request-id": f"req_{number}", "x-request-id": f"req_{number}"}
        for name, value in {**ids, **told}.items():
            self.send_header(name, value)
        self.end_headers()


def _encoded(book: Server, asked: Asked, body: Json) -> Encoded:
    return book.stream_of(body) if asked.is_streamed else Encoded(json.dumps(body).encode())
