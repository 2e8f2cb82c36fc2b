"""HTTP bodies: reads JSON objects and forms up to a limit; writes JSON, events and file content."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message

from toolcrib.embedded.access import ResourceAccess
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.file_repository import MAX_BYTES
from toolcrib.errors import ApiFault
from toolcrib.runtime.principal import OWNER

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal

logger = logging.getLogger(__name__)

MAX_BODY: Final = 32 * 1024 * 1024
PRINCIPAL: Final = "toolcrib.provider.principal"
"""Where the server puts the authenticated principal of a request, in its ASGI scope."""

_MAX_DIGITS: Final = 20
_PIECE: Final = 262_144
READ_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
Handler = Callable[[Request], Awaitable[Response]]


def answered(handler: Handler) -> Handler:
    """Wrap a handler: an `ApiFault` becomes its response, any other error a plain 500."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ApiFault as fault:
            return JSONResponse(fault.body, status_code=fault.status)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:
            logger.exception("%s %s failed", request.method, request.url.path)
            fault = ApiFault(500, "The provider failed; see its log.", kind="server_error")
            return JSONResponse(fault.body, status_code=500)

    return handle


def access_of(request: HTTPConnection) -> ResourceAccess:
    """What the principal of a request may reach. In the process itself there is no principal to
    authenticate, and the request is the owner's.
    """
    is_change = request.scope.get("method") not in READ_METHODS
    principal: Principal = request.scope.get(PRINCIPAL, OWNER)
    return ResourceAccess.of(principal, is_change=is_change)


def listed_owner(request: Request) -> str | None:
    """Whose resources a list shows; None for everybody's. Raises `ApiFault`."""
    return access_of(request).listed_owner(request.query_params.get("owner"))


async def read_bytes(request: Request, most: int = MAX_BODY) -> bytes:
    """The body. Raises `ApiFault` if it is too large."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise ApiFault(413, f"The body is larger than {most} bytes.", code="too_large")
        pieces.append(piece)
    return b"".join(pieces)


async def read_json(request: Request) -> Any:
    """The body as JSON. Raises `ApiFault`."""
    try:
        return json.loads(await read_bytes(request) or b"{}")
    except (ValueError, RecursionError):
        raise invalid("The body is not valid JSON.") from None


def whole_number(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A number of the query string. Raises `ApiFault`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    # Python reads no number of thousands of digits.
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS
    if not is_number or not low <= int(text) <= high:
        raise invalid(f"'{name}' must be a whole number from {low} to {high}.", name)
    return int(text)


def page(
    request: Request, resources: Sequence[Mapping[str, Any]], *, order: str = "desc"
) -> Response:
    """One page of a list that is sorted from oldest to newest. Raises `ApiFault`."""
    limit = whole_number(request, "limit", 20, 1, 100)
    direction = request.query_params.get("order", order)
    if direction not in ("asc", "desc"):
        raise invalid("'order' must be 'asc' or 'desc'.", "order")
    listed = list(resources) if direction == "asc" else list(reversed(resources))
    after = request.query_params.get("after")
    if after is not None:
        places = [place for place, resource in enumerate(listed) if resource["id"] == after]
        if not places:
            raise invalid(f"There is no '{after[:80]}' in this list.", "after")
        listed = listed[places[0] + 1 :]
    shown = listed[:limit]
    body: dict[str, Any] = {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(listed) > limit,
    }
    return JSONResponse(body)


def event_stream(events: AsyncIterator[Mapping[str, Any]]) -> Response:
    """Server-sent events in the format of the Responses API."""

    async def lines() -> AsyncIterator[bytes]:
        async for event in events:
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        yield b"data: [DONE]\n\n"

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(lines(), media_type="text/event-stream", headers=headers)


async def read_object(request: Request) -> dict[str, Any]:
    """The body, an object. Raises `ApiFault`."""
    body = await read_json(request)
    if not isinstance(body, dict):
        raise invalid("The body must be a JSON object.")
    return cast(dict[str, Any], body)


_MAX_FIELDS: Final = 64
_MAX_AROUND: Final = 1024 * 1024
"""Bytes of a form besides its file."""


@asynccontextmanager
async def read_form(request: Request, most: int | None = None) -> AsyncGenerator[FormData]:
    """Read a form with at most one file, by default of the size of an upload. Raises `ApiFault` as
    soon as it is too large.
    """
    capped = Request(request.scope, _Capped(request, MAX_BYTES if most is None else most).receive)
    try:
        form = await capped.form(max_files=1, max_fields=_MAX_FIELDS)
    except HTTPException as error:
        raise invalid(f"The form cannot be read: {error.detail}") from None
    try:
        yield form
    finally:
        await capped.close()


async def read_upload(form: FormData) -> tuple[str, bytes]:
    """The file of a form. Raises `ApiFault`."""
    upload = form.get("file")
    if not isinstance(upload, UploadFile):
        raise invalid("Missing required parameter: 'file'.", "file")
    if upload.size is not None and upload.size > MAX_BYTES:
        raise too_large(MAX_BYTES)
    return upload.filename or "file", await upload.read()


def attachment(filename: str, size: int, content: bytes | Path) -> Response:
    """A download that no browser renders as a page. It is sent in pieces as the client reads them,
    so that a slow client keeps neither a whole file in memory nor too much unsent.
    """
    headers: dict[str, Any] = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(filename, safe='')}",
        "content-length": str(size),
        "x-content-type-options": "nosniff",
    }
    return StreamingResponse(
        _pieces(content), media_type="application/octet-stream", headers=headers
    )


async def _pieces(content: bytes | Path) -> AsyncIterator[bytes]:
    if isinstance(content, bytes):
        for at in range(0, len(content), _PIECE):
            yield content[at : at + _PIECE]
        return
    file = await asyncio.to_thread(content.open, "rb")
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def too_large(most: int) -> ApiFault:
    """The fault for a file that is too large."""
    return ApiFault(413, f"The file is larger than {most} bytes.", param="file")


class _Capped:
    """Counts the bytes of a request body."""

    def __init__(self, request: Request, most: int) -> None:
        self._request = request
        self._most = most
        self._left = most + _MAX_AROUND

    async def receive(self) -> Message:
        message = await self._request.receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise too_large(self._most)
        return message
