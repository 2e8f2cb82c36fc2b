"""A chat endpoint on loopback that replays payloads, byte for byte as servers send them."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


class ChatServer:
    """What it answers next, and what it was asked."""

    def __init__(self, port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.status = 200
        self.body = b""
        self.is_cut = False
        """Whether the connection is closed before the body is whole."""
        self.requests: list[Json] = []
        self.authorization: list[str | None] = []

    def plays(self, *chunks: Json, ends: bool = True) -> None:
        """Answer with these chunks, as a stream."""
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self.body = "".join([*lines, "data: [DONE]\n\n" if ends else ""]).encode()

    def says(self, *deltas: Json, reason: str | None = "stop", **more: Any) -> None:
        """Answer with these pieces of one message."""
        self.plays(*[chunk(delta) for delta in deltas], chunk({}, reason), **more)


def chunk(delta: Json, reason: str | None = None, **more: Any) -> Json:
    """One chunk of a stream, as llama.cpp sends it."""
    return {
        "id": "chatcmpl-7",
        "object": "chat.completion.chunk",
        "created": 1763300000,
        "model": "m",
        "system_fingerprint": "b6700",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        **more,
    }


def usage(prompt: int, completion: int) -> Json:
    """The last chunk of a stream that was asked for its usage: it has no choices."""
    counted = {"prompt_tokens": prompt, "completion_tokens": completion}
    total = {"total_tokens": prompt + completion}
    return {**chunk({}), "choices": [], "usage": {**counted, **total}}


@contextmanager
def chat_server() -> Generator[ChatServer]:
    """A server in a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            chat.requests.append(json.loads(self.rfile.read(length)))
            chat.authorization.append(self.headers["Authorization"])
            self.send_response(chat.status)
            kind = "text/event-stream" if chat.status == 200 else "application/json"
            self.send_header("Content-Type", kind)
            promised = len(chat.body) + (100 if chat.is_cut else 0)
            self.send_header("Content-Length", str(promised))
            self.end_headers()
            self.wfile.write(chat.body)
            self.close_connection = chat.is_cut

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    chat = ChatServer(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
