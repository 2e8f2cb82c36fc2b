"""Files, containers and responses on the loopback interface, as far as the SDK can tell.

Uploads are real multipart requests. A container made for a response really holds its files, so a
scripted model can read them where it was told they are.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Json = dict[str, Any]

DATA = "/mnt/data"


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as it arrived."""

    name: str
    data: bytes
    fields: dict[str, str]


@dataclass(slots=True)
class Container:
    """A container and what lies in it, by the ids of its files."""

    id: str
    options: Json
    status: str = "running"
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict[str, tuple[str, bytes]])

    def read(self, path: str) -> bytes:
        """What code in the container would read."""
        (found,) = [data for at, data in self.files.values() if at == path]
        return found

    def write(self, name: str, data: bytes) -> str:
        """What code in the container would write; gives the id of the file."""
        file_id = f"cfile_{len(self.files) + 1}"
        self.files[file_id] = (f"{DATA}/{name}", data)
        return file_id


@dataclass(frozen=True, slots=True)
class Raw:
    """A reply that is not JSON; with `is_cut` it promises more than it brings."""

    data: bytes
    is_cut: bool = False
    encoding: str = "identity"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is said instead of the next reply to a request."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Said:
    """A reply of another server's, in place of what was really done."""

    body: Any


Answer = Callable[["FilesServer", Json], Json]


class FilesServer:
    """Answers requests for responses from its script; everything else it really does.

    `faults` come before anything else, by method and path. Use it as a context manager.
    """

    def __init__(self, *script: Json | Answer) -> None:
        self.script = list(script)
        self.asked: list[Json] = []
        self.seen: list[str] = []
        self.uploads: dict[str, Upload] = {}
        self.containers: dict[str, Container] = {}
        self.faults: dict[str, list[Fault | Raw | Said]] = {}
        self.during: Callable[[str], None] = lambda _: None
        """Called for each request, by method and path, before it is answered."""
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> FilesServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def container(self, container_id: str = "cntr_1", **options: Any) -> Container:
        """A container that is there already."""
        return self.containers.setdefault(container_id, Container(container_id, options))

    def counted(self, request: str) -> int:
        """How often something was asked, by method and path."""
        return self.seen.count(request)

    def answer(self, method: str, path: str, kind: str, body: bytes) -> tuple[int, Json | Raw]:
        """The reply to a request."""
        self.during(f"{method} {path}")
        with self._lock:
            self.seen.append(f"{method} {path}")
            faults = self.faults.get(f"{method} {path}")
            if faults:
                match faults.pop(0):
                    case Fault(status, message):
                        return status, {"error": {"message": message, "code": None}}
                    case Raw() as raw:
                        return 200, raw
                    case Said(said):
                        return 200, said
            for pattern, act in ROUTES.items():
                found = re.fullmatch(pattern, f"{method} {path}")
                if found:
                    return act(self, kind, body, *found.groups())
        return 404, {"error": {"message": f"no such route: {method} {path}"}}


def code_call(container: Container, code: str, logs: str = "") -> Json:
    """A run of code in a container."""
    return {
        "type": "code_interpreter_call",
        "id": f"ci_{container.id}",
        "status": "completed",
        "code": code,
        "container_id": container.id,
        "outputs": [{"type": "logs", "logs": logs}] if logs else [],
    }


def citation(container: Container, file_id: str, name: str, span: tuple[int, int] = (0, 0)) -> Json:
    """What an answer says of a file that the code made."""
    return {
        "type": "container_file_citation",
        "container_id": container.id,
        "file_id": file_id,
        "filename": name,
        "start_index": span[0],
        "end_index": span[1],
    }


def opened(server: FilesServer, body: Json) -> Container:
    """The container that a request asks for, made with its files if need be."""
    (tool,) = [each for each in body["tools"] if each["type"] == "code_interpreter"]
    wanted = tool["container"]
    if isinstance(wanted, str):
        return server.containers[wanted]
    container = server.container(f"cntr_auto_{len(server.containers)}", **wanted)
    for file_id in wanted.get("file_ids", ()):
        _copy(server, container, file_id)
    return container


def _respond(server: FilesServer, _: str, body: bytes) -> tuple[int, Json]:
    asked = json.loads(body)
    server.asked.append(asked)
    if not server.script:
        return 400, {"error": {"message": "the script is over"}}
    reply = server.script.pop(0)
    return 200, reply(server, asked) if callable(reply) else reply


def _upload(server: FilesServer, kind: str, body: bytes) -> tuple[int, Json]:
    upload = read_multipart(kind, body)
    if not upload.data:
        return 400, {"error": {"message": "File is empty."}}
    file_id = f"file-{len(server.uploads) + 1}"
    server.uploads[file_id] = upload
    purpose = upload.fields["purpose"]
    facts = {"id": file_id, "object": "file", "created_at": 1, "status": "processed"}
    return 200, {**facts, "filename": upload.name, "bytes": len(upload.data), "purpose": purpose}


def _delete(server: FilesServer, _: str, __: bytes, file_id: str) -> tuple[int, Json]:
    del server.uploads[file_id]
    return 200, {"id": file_id, "object": "file", "deleted": True}


def _create(server: FilesServer, _: str, body: bytes) -> tuple[int, Json]:
    options = json.loads(body)
    container = server.container(f"cntr_{len(server.containers) + 1}", **options)
    for file_id in options.get("file_ids", ()):
        _copy(server, container, file_id)
    return 200, _facts(container)


def _retrieve(server: FilesServer, _: str, __: bytes, container_id: str) -> tuple[int, Json]:
    container = server.containers.get(container_id)
    if container is None:
        return 404, {"error": {"message": f"Container with id '{container_id}' not found."}}
    return 200, _facts(container)


def _add(server: FilesServer, _: str, body: bytes, container_id: str) -> tuple[int, Json]:
    container = server.containers[container_id]
    if container.status == "expired":
        return 400, {"error": {"message": "Container is expired.", "code": None}}
    made, path = _copy(server, container, json.loads(body)["file_id"])
    facts = {"id": made, "object": "container.file", "created_at": 1, "source": "user"}
    return 200, {**facts, "container_id": container_id, "path": path, "bytes": None}


def _content(
    server: FilesServer, _: str, __: bytes, container_id: str, file_id: str
) -> tuple[int, Json | Raw]:
    found = server.containers[container_id].files.get(file_id)
    if found is None:
        return 404, {"error": {"message": f"File {file_id} not found on container."}}
    return 200, Raw(found[1])


ROUTES: dict[str, Callable[..., tuple[int, Json | Raw]]] = {
    r"POST /v1/responses": _respond,
    r"POST /v1/files": _upload,
    r"DELETE /v1/files/([^/]+)": _delete,
    r"POST /v1/containers": _create,
    r"GET /v1/containers/([^/]+)": _retrieve,
    r"POST /v1/containers/([^/]+)/files": _add,
    r"GET /v1/containers/([^/]+)/files/([^/]+)/content": _content,
}


def _copy(server: FilesServer, container: Container, file_id: str) -> tuple[str, str]:
    upload = server.uploads[file_id]
    made = container.write(f"{file_id}-{upload.name}", upload.data)
    return made, container.files[made][0]


def _facts(container: Container) -> Json:
    return {
        "id": container.id,
        "object": "container",
        "created_at": 1,
        "status": container.status,
        "name": container.options.get("name", ""),
        "memory_limit": container.options.get("memory_limit", "1g"),
    }


def read_multipart(kind: str, body: bytes) -> Upload:
    """The parts of a multipart request: fields, and at most one file."""
    header = Message()
    header["content-type"] = kind
    boundary = header.get_param("boundary")
    assert isinstance(boundary, str), kind
    name, data, fields = "", b"", dict[str, str]()
    for part in body.split(f"--{boundary}".encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        filename = re.search(r'filename="([^"]*)"', head.decode())
        key = re.search(r' name="([^"]*)"', head.decode())
        assert key is not None
        if filename:
            name, data = filename[1], content.removesuffix(b"\r\n")
        else:
            fields[key[1]] = content.removesuffix(b"\r\n").decode()
    return Upload(name, data, fields)


def _handler(server: FilesServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def log_message(self, format: str, *args: Any) -> None:
            return None

        def do_POST(self) -> None:
            self._answer("POST")

        def do_GET(self) -> None:
            self._answer("GET")

        def do_DELETE(self) -> None:
            self._answer("DELETE")

        def _answer(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            kind = self.headers.get("content-type") or ""
            # Connections that stay open would keep the server's threads alive after the test.
            self.close_connection = True
            status, reply = server.answer(method, self.path.partition("?")[0], kind, body)
            match reply:
                case Raw():
                    self._send(status, "application/binary", reply)
                case _:
                    self._send(status, "application/json", Raw(json.dumps(reply).encode()))

        def _send(self, status: int, kind: str, reply: Raw) -> None:
            self.send_response(status)
            self.send_header("connection", "close")
            self.send_header("x-request-id", f"req_{len(server.seen)}")
            # Whoever tries again need not wait.
            self.send_header("retry-after-ms", "1")
            self.send_header("content-type", kind)
            self.send_header("content-encoding", reply.encoding)
            self.send_header("content-length", str(len(reply.data) + 10 * reply.is_cut))
            self.end_headers()
            # A client that has heard enough hangs up.
            with suppress(ConnectionError):
                self.wfile.write(reply.data)

    return Handler
