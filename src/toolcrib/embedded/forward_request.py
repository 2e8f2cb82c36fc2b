"""A request to a forward proxy: `CONNECT`, or a plain HTTP request with a whole URL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

_LINE: Final = re.compile(r"([A-Z]{1,20}) ([!-~]+) HTTP/1\.[01]")
_AUTHORITY: Final = re.compile(r"([^:/@?#\[\]]+)(?::([0-9]{1,5}))?")
_URL: Final = re.compile(r"http://([^/?#@]+)([/?][!-~]*)?", re.IGNORECASE)
_FIELD: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([\t -~\x80-\xff]*)")
_OF_CONNECTION: Final = frozenset(
    {"connection", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization"}
    | {"proxy-connection", "te", "trailer", "upgrade"}
)
_MAX_FIELDS: Final = 100
_MAX_CHUNK: Final = 16 * 1024 * 1024
_PIECE: Final = 65_536


@dataclass(frozen=True, slots=True)
class ForwardRequest:
    """A request that a proxy can pass on. A tunnel has no target and no fields."""

    method: str
    host: str
    port: int
    target: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    body_size: int = 0
    is_chunked: bool = False
    expects_continue: bool = False

    @property
    def is_tunnel(self) -> bool:
        """Whether the client wants a tunnel."""
        return self.method == "CONNECT"


def read_forward_request(head: bytes) -> ForwardRequest | str:
    """Read the head of a request, or say what is wrong with it."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        return "this is no request to a proxy"
    method, target = line[1], line[2]
    if method == "CONNECT":
        place = _AUTHORITY.fullmatch(target)
        if place is None or place[2] is None:
            return "CONNECT needs a host and a port"
        return ForwardRequest(method, place[1], int(place[2]))
    url = _URL.fullmatch(target)
    place = _AUTHORITY.fullmatch(url[1]) if url is not None else None
    if url is None or place is None:
        return "give a whole http:// address of a host by its name"
    path = url[2] or "/"
    path = path if path.startswith("/") else f"/{path}"
    return _plain(method, place[1], int(place[2] or 80), path, lines)


def _plain(method: str, host: str, port: int, path: str, lines: list[str]) -> ForwardRequest | str:
    fields: list[tuple[str, str]] = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None or len(fields) >= _MAX_FIELDS:
            return "its headers cannot be read"
        fields.append((field[1].lower(), field[2].rstrip()))
    hosts = [value for name, value in fields if name == "host"]
    if len(hosts) > 1 or any(_differs(value, host, port) for value in hosts):
        return "the header Host names another host than the address"
    sizes = [value for name, value in fields if name == "content-length"]
    codings = [value.lower() for name, value in fields if name == "transfer-encoding"]
    is_body_clear = len(sizes) + len(codings) <= 1 and all(map(_is_size, sizes))
    if not is_body_clear or any(coding != "chunked" for coding in codings):
        return "its body has no clear length"
    # What the header Connection names is of this connection alone.
    named = {
        name.strip().lower()
        for field, value in fields
        if field == "connection"
        for name in value.split(",")
    }
    dropped = _OF_CONNECTION | (named - {"content-length", "transfer-encoding"})
    return ForwardRequest(
        method,
        host,
        port,
        path,
        tuple(pair for pair in fields if pair[0] not in dropped),
        int(sizes[0]) if sizes else 0,
        is_chunked=bool(codings),
        expects_continue=any(name == "expect" for name, _ in fields),
    )


def plain_head(request: ForwardRequest) -> bytes:
    """The head of a plain request for the server: alone on its connection, for the host that was
    checked.
    """
    host = request.host if request.port == 80 else f"{request.host}:{request.port}"
    lines = [f"{request.method} {request.target} HTTP/1.1", f"host: {host}"]
    lines += [f"{name}: {value}" for name, value in request.fields]
    lines += ["connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def copy_body(request: ForwardRequest, reader: StreamReader, writer: StreamWriter) -> None:
    """Pass on the body of a request and nothing that follows it. Raises `OSError` for a body that
    cannot be read.
    """
    if not request.is_chunked:
        await _copy(reader, writer, request.body_size)
        return
    while True:
        line = await reader.readuntil(b"\r\n")
        text = line.partition(b";")[0].strip()
        size = int(text, 16) if re.fullmatch(rb"[0-9A-Fa-f]{1,8}", text) else -1
        if not 0 <= size <= _MAX_CHUNK:
            raise ConnectionError("a chunk has no size")
        writer.write(f"{size:x}\r\n".encode())
        if size == 0:
            # Fields after the body are not passed on.
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
            writer.write(b"\r\n")
            await writer.drain()
            return
        await _copy(reader, writer, size)
        if await reader.readexactly(2) != b"\r\n":
            raise ConnectionError("a chunk has no end")
        writer.write(b"\r\n")


async def _copy(reader: StreamReader, writer: StreamWriter, size: int) -> None:
    left = size
    while left:
        piece = await reader.read(min(left, _PIECE))
        if not piece:
            raise ConnectionError("the body ended early")
        left -= len(piece)
        writer.write(piece)
        await writer.drain()


def _differs(field: str, host: str, port: int) -> bool:
    place = _AUTHORITY.fullmatch(field)
    if place is None:
        return True
    return (place[1].lower(), int(place[2] or 80)) != (host.lower(), port)


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 15
