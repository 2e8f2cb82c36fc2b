"""Files in and out: forms that are read up to a limit, and bytes that are given out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from toolcrib.local.faults import ApiFault, invalid
from toolcrib.local.files.shelf import MOST_BYTES

_MOST_FIELDS: Final = 64
_MOST_AROUND: Final = 1024 * 1024
"""What a form may hold besides its file."""


@asynccontextmanager
async def read_form(request: Request) -> AsyncGenerator[FormData]:
    """A form with at most one file. Raises `ApiFault` as soon as it is too large."""
    capped = Request(request.scope, _Capped(request, MOST_BYTES + _MOST_AROUND).receive)
    try:
        form = await capped.form(max_files=1, max_fields=_MOST_FIELDS)
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
    if upload.size is not None and upload.size > MOST_BYTES:
        raise too_large()
    return upload.filename or "file", await upload.read()


def attachment(filename: str, data: bytes) -> Response:
    """Bytes that no browser takes for a page."""
    headers: dict[str, Any] = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(filename, safe='')}",
        "x-content-type-options": "nosniff",
    }
    return Response(data, media_type="application/octet-stream", headers=headers)


def too_large() -> ApiFault:
    """The fault of a file that nobody takes."""
    return ApiFault(413, f"The file is larger than {MOST_BYTES} bytes.", param="file")


class _Capped:
    """What a request sends, counted."""

    def __init__(self, request: Request, most: int) -> None:
        self._request = request
        self._left = most

    async def receive(self) -> Message:
        message = await self._request.receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise too_large()
        return message
