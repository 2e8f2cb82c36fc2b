"""Downloads: the export of a session and the content of an artifact, sent piece by piece.

A browser saves them and shows nothing of them: what is in them was written by tools and models.
"""

from __future__ import annotations

import asyncio
import binascii
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from toolcrib.errors import Refused
from toolcrib.serving.auth import principal_of
from toolcrib.serving.refusals import as_bytes, as_refused, send_refusal, wait_for_disconnect
from toolcrib.transports.http.endpoint import query_of

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.principal import Principal, Role
    from toolcrib.runtime.runtime import Runtime

Encoding = Literal["text", "base64"]
"""What an artifact is: a text, or bytes that are kept as base64."""

_READERS: Final[tuple[Role, ...]] = ("caller", "auditor")
_PAGE: Final = 1_000
"""How many events are read at a time."""
_CHARACTERS: Final = 4_000_000
"""How much of an artifact is read at a time."""
_CHUNK: Final = 256 * 1024
_TEXT: Final = "text/plain; charset=utf-8"
_BYTES: Final = "application/octet-stream"
_JSON_LINES: Final = "application/jsonl"
_SAFE_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_MAGIC: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png", ".png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg", ".jpg"),
    (re.compile(rb"GIF8[79]a"), "image/gif", ".gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp", ".webp"),
)
"""Pictures that run nothing, by how they begin. All else is bytes without a name."""


@dataclass(frozen=True, slots=True)
class Download:
    """What a response holds. `chunks` have at least one, so that a refusal comes before it."""

    name: str
    media_type: str
    first: bytes
    chunks: AsyncGenerator[bytes]


class DownloadEndpoint(ABC):
    """Answers with a file to save. An ASGI application."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @abstractmethod
    async def open(self, params: Mapping[str, str], who: Principal) -> Download:
        """The file that the parameters name. Raises `Refused`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            params: dict[str, str] = {**query_of(scope), **scope["path_params"]}
            download = await self.open(params, principal_of(scope))
        except Exception as error:
            await send_refusal(send, as_refused(error, "the download"))
            return
        disconnected = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            await _send(send, download, disconnected)
        finally:
            disconnected.cancel()
            await download.chunks.aclose()


async def _send(send: Send, download: Download, disconnected: asyncio.Future[None]) -> None:
    disposition = f'attachment; filename="{_file_name(download.name)}"'
    headers = [
        (b"content-type", download.media_type.encode()),
        (b"content-disposition", disposition.encode()),
        *_SAFE_HEADERS,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _send_chunk(send, download.first)
    # What fails from here on breaks the response off, so that nobody takes a part for the whole.
    async for chunk in download.chunks:
        if disconnected.done():
            return
        await _send_chunk(send, chunk)
    await send({"type": "http.response.body", "body": b""})


async def _send_chunk(send: Send, chunk: bytes) -> None:
    for start in range(0, len(chunk), _CHUNK):
        body = chunk[start : start + _CHUNK]
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _file_name(name: str) -> str:
    # A header is ASCII, and ids of sessions and calls are chosen by clients.
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:120].lstrip(".") or "download"


class ExportEndpoint(DownloadEndpoint):
    """The events of a session as JSON, one a line, as `toolcrib sessions export` prints them."""

    async def open(self, params: Mapping[str, str], who: Principal) -> Download:
        _check_names(params, {"session_id"})
        session_id = params["session_id"]
        # Refuses a session that does not exist; one without events is only empty.
        await self._runtime.ask("session.get", {"session_id": session_id}, who)
        pages = self._pages(session_id, who)
        first = await anext(pages, b"")
        return Download(f"{session_id}.jsonl", _JSON_LINES, first, pages)

    async def _pages(self, session_id: str, who: Principal) -> AsyncGenerator[bytes]:
        after = 0
        while True:
            wanted = {"session_id": session_id, "after": after, "limit": _PAGE}
            page = await self._runtime.ask("events.list", wanted, who)
            if not page.events:
                return
            yield b"".join(as_bytes(event) + b"\n" for event in page.events)
            after = page.last_seq


class ArtifactEndpoint(DownloadEndpoint):
    """The content of an artifact: its text, or the bytes that are kept as base64."""

    async def open(self, params: Mapping[str, str], who: Principal) -> Download:
        _check_names(params, {"session_id", "artifact_id", "encoding"})
        encoding = params.get("encoding", "text")
        if encoding not in ("text", "base64"):
            raise Refused("invalid", f"encoding: {encoding[:64]!r} is none; write text or base64")
        artifact_id = params["artifact_id"]
        texts = self._texts(params["session_id"], artifact_id, who)
        if encoding == "text":
            chunks = _encoded(texts)
            return Download(f"{artifact_id}.txt", _TEXT, await anext(chunks, b""), chunks)
        chunks = _decoded(texts)
        first = await anext(chunks, b"")
        media_type, ending = _media_type(first)
        return Download(f"{artifact_id}{ending}", media_type, first, chunks)

    async def _texts(
        self, session_id: str, artifact_id: str, who: Principal
    ) -> AsyncGenerator[str]:
        offset: int | None = 0
        while offset is not None:
            wanted = {
                "session_id": session_id,
                "artifact_id": artifact_id,
                "offset": offset,
                "limit": _CHARACTERS,
            }
            page = await self._runtime.ask("artifacts.get", wanted, who)
            yield page.text
            offset = page.next_offset


def _check_names(params: Mapping[str, str], known: set[str]) -> None:
    for name in params:
        if name not in known:
            raise Refused("invalid", f"unknown parameter {name[:80]!r}; leave it out")


async def _encoded(texts: AsyncGenerator[str]) -> AsyncGenerator[bytes]:
    async for text in texts:
        # Half of a character, which a text may hold, has no bytes.
        yield text.encode("utf-8", "replace")


async def _decoded(texts: AsyncGenerator[str]) -> AsyncGenerator[bytes]:
    """The bytes of base64 in either alphabet. Raises `Refused` for a text that is none."""
    rest = ""
    async for text in texts:
        rest += text.translate(_STANDARD)
        whole = len(rest) - len(rest) % 4
        yield _bytes_of(rest[:whole])
        rest = rest[whole:]
    if rest:
        yield _bytes_of(rest + "=" * (-len(rest) % 4))


_STANDARD: Final = str.maketrans("-_", "+/")


def _bytes_of(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=bool(text))
    except ValueError:
        raise Refused(
            "invalid", "the artifact is not base64; ask for it with encoding=text"
        ) from None


def _media_type(first: bytes) -> tuple[str, str]:
    for beginning, media_type, ending in _MAGIC:
        if beginning.match(first):
            return media_type, ending
    return _BYTES, ".bin"


@dataclass(frozen=True, slots=True)
class DownloadRoute:
    """A download at a path."""

    name: str
    path: str
    about: str
    media_types: tuple[str, ...]
    endpoint: Callable[[Runtime], DownloadEndpoint]
    query: Mapping[str, Mapping[str, Any]]
    """The JSON Schemas of the parameters in the query."""
    roles: tuple[Role, ...] = _READERS

    @property
    def in_path(self) -> tuple[str, ...]:
        """The names of the parameters in the path."""
        return tuple(re.findall(r"{(\w+)}", self.path))


DOWNLOAD_ROUTES: Final = (
    DownloadRoute(
        "session.export",
        "/v1/sessions/{session_id}/export",
        "All events of a session as JSON, one per line.",
        (_JSON_LINES,),
        ExportEndpoint,
        {},
    ),
    DownloadRoute(
        "artifacts.content",
        "/v1/sessions/{session_id}/artifacts/{artifact_id}/content",
        "The content of an artifact as a file: its text, or the bytes that are kept as base64.",
        ("text/plain", _BYTES, *(media_type for _, media_type, _ in _MAGIC)),
        ArtifactEndpoint,
        {"encoding": {"type": "string", "enum": ["text", "base64"], "default": "text"}},
    ),
)
