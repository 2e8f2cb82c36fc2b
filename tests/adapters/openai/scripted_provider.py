"""A Responses API on the loopback interface that says what its script says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast

from tests.helpers.byte_pieces import random_pieces
from tests.helpers.patience import PATIENCE

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON reply. A whole response is streamed when the request asks for a stream."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of events; with `is_cut`, the connection is lost after the last one, with
    `is_split`, its bytes come in pieces that end anywhere.
    """

    events: Sequence[Json]
    is_cut: bool = False
    is_split: bool = False


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


Reply = Body | Events | Text | Dropped | Silence


@dataclass(frozen=True, slots=True)
class Request:
    """What the server was asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        return json.loads(self.raw)


class Provider:
    """Serves its replies in order and remembers the requests. Use it as a context manager.

    `routes` answer other endpoints, by method and path, as often as they are asked.
    """

    def __init__(self, *replies: Json | Reply, routes: Mapping[str, Reply] | None = None) -> None:
        self.replies: list[Reply] = [_as_reply(reply) for reply in replies]
        self.requests: list[Request] = []
        self.others: list[Request] = []
        self.routes = dict(routes or {})
        self.after: Json | None = None
        """What is said when the script is over."""
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Provider:
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
        """The bodies of all requests for a response, in order."""
        return [request.body for request in self.requests]

    def add(self, *replies: Json | Reply) -> None:
        """Go on with these replies."""
        with self._lock:
            self.replies += [_as_reply(reply) for reply in replies]

    def answer(self, request: Request) -> tuple[int, Reply]:
        """The reply to a request, and its number."""
        with self._lock:
            if request.method != "POST" or request.path != "/v1/responses":
                self.others.append(request)
                reply = self.routes.get(f"{request.method} {request.path}")
                return 0, reply or Body({"error": {"message": "no such route"}}, 404)
            self.requests.append(request)
            number = len(self.requests)
            if not self.replies:
                over = Body({"error": {"message": "the script is over"}}, 400)
                return number, over if self.after is None else Body(self.after)
            return number, self.replies.pop(0)


def message(text: str, *annotations: Json, **fields: Any) -> Json:
    """A message of the model's."""
    part = {"type": "output_text", "text": text, "annotations": list(annotations)}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**item, "content": [part], **fields}


def call(name: str, arguments: Any = None, call_id: str = "call_1") -> Json:
    """A call of a function of ours."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    item_id = call_id.replace("call_", "fc_")
    return {
        "type": "function_call",
        "id": item_id,
        "call_id": call_id,
        "name": name,
        "arguments": text,
        "status": "completed",
    }


def response(*items: Json, **fields: Any) -> Json:
    """A whole response. Its id tells what is in it, and nothing of its place in a script."""
    body: Json = {
        "id": "resp_" + "_".join(str(item.get("id")) for item in items),
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "test-model",
        "output": list(items),
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }
    return {**body, **fields}


def events_of(body: Json, deltas: int = 2) -> list[Json]:
    """The stream that a server would send for a response, as far as anybody looks at it."""
    started: Json = {**body, "status": "in_progress", "output": []}
    events: list[Json] = [{"type": "response.created", "response": started}]
    for index, item in enumerate(body.get("output") or []):
        events += _item_events(index, item, deltas)
    ending = {"failed": "failed", "incomplete": "incomplete"}.get(body.get("status", ""))
    events.append({"type": f"response.{ending or 'completed'}", "response": body})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def body_of(events: Iterable[Json]) -> Json:
    """The response that a stream tells of, items of its own events filled in where it has none."""
    listed = list(events)
    ends = [event["response"] for event in listed if event.get("type") in ENDINGS]
    body = dict(ends[-1])
    items = [e["item"] for e in listed if e.get("type") == "response.output_item.done"]
    return body if body.get("output") else {**body, "output": items}


ENDINGS = ("response.completed", "response.incomplete", "response.failed")


def _item_events(index: int, item: Json, deltas: int) -> list[Json]:
    place = {"output_index": index, "item_id": item.get("id", "")}
    events: list[Json] = [{"type": "response.output_item.added", "item": item, **place}]
    if item.get("type") == "message":
        for part_index, part in enumerate(item.get("content") or []):
            if part.get("type") == "output_text":
                events += [
                    {
                        "type": "response.output_text.delta",
                        "delta": piece,
                        "content_index": part_index,
                        "logprobs": [],
                        **place,
                    }
                    for piece in _pieces(part.get("text") or "", deltas)
                ]
    elif str(item.get("type")).endswith("_call") and item.get("type") != "function_call":
        events.append({"type": f"response.{item['type']}.completed", **place})
    return [*events, {"type": "response.output_item.done", "item": item, **place}]


def _pieces(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _as_reply(reply: Json | Reply) -> Reply:
    return Body(reply) if isinstance(reply, dict) else reply


class _Server(ThreadingHTTPServer):
    # Joined at the end, so that no test leaves a thread behind.
    daemon_threads = False

    def __init__(self, provider: Provider) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.provider = provider


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def _provider(self) -> Provider:
        return cast("_Server", self.server).provider

    def do_POST(self) -> None:
        self._answer("POST")

    def do_GET(self) -> None:
        self._answer("GET")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(method, self.path.partition("?")[0], headers, raw)
        number, reply = self._provider().answer(request)
        # Connections that stay open would keep the server's threads alive after the test.
        self.close_connection = True
        match reply:
            case Body(body, status, extra):
                is_streamed = status == 200 and number and request.body.get("stream")
                if is_streamed:
                    self._stream(number, events_of(body), is_cut=False)
                else:
                    self._send(number, status, json.dumps(body), "application/json", extra)
            case Events(events, is_cut, is_split):
                self._stream(number, events, is_cut=is_cut, is_split=is_split)
            case Text(text, content_type):
                self._send(number, 200, text, content_type, {})
            case Dropped():
                pass
            case Silence():
                self._provider().closing.wait(PATIENCE)

    def _send(
        self, number: int, status: int, text: str, kind: str, extra: Mapping[str, str]
    ) -> None:
        data = text.encode()
        self._start(number, status, {"content-type": kind, "content-length": str(len(data))})
        for name, value in extra.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(
        self, number: int, events: Sequence[Json], *, is_cut: bool, is_split: bool = False
    ) -> None:
        self._start(number, 200, {"content-type": "text/event-stream"})
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        whole = [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]
        for data in random_pieces(b"".join(whole)) if is_split else whole:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()
        if not is_cut:
            self.wfile.write(b"0\r\n\r\n")

    def _start(self, number: int, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("connection", "close")
        self.send_header("x-request-id", f"req_{number}")
        for name, value in headers.items():
            self.send_header(name, value)
