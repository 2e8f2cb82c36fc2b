"""A webhook on loopback that keeps what it gets, and answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

from tests.helpers.patience import PATIENCE


@dataclass(frozen=True)
class Received:
    """One request that came in."""

    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """Answers with `statuses`, one after the other, and with 204 when they are used up."""

    url: str = ""
    statuses: list[int] = field(default_factory=list[int])
    location: str = ""
    _requests: Queue[Received] = field(default_factory=Queue[Received])
    gate: threading.Event = field(default_factory=threading.Event)

    def next(self) -> Received:
        return self._requests.get(timeout=PATIENCE)

    @property
    def is_empty(self) -> bool:
        return self._requests.empty()

    def answer(self, received: Received) -> int:
        self._requests.put(received)
        self.gate.wait(PATIENCE)
        return self.statuses.pop(0) if self.statuses else 204


@contextmanager
def receiver(*statuses: int, is_open: bool = True) -> Generator[Receiver]:
    """A webhook; one that is not open holds every answer back until its gate is set."""
    got = Receiver(statuses=list(statuses))
    if is_open:
        got.gate.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(got.answer(Received(headers, body)))
            if got.location:
                self.send_header("Location", got.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    got.url = f"http://127.0.0.1:{server.server_address[1]}/hook-path-0123456789"
    try:
        yield got
    finally:
        got.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()
