"""`/v1/files`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.http.bodies import (
    access_of,
    answered,
    attachment,
    listed_owner,
    page,
    read_form,
    read_upload,
)

if TYPE_CHECKING:
    from toolcrib.embedded.file_repository import StoredFile
    from toolcrib.embedded.provider import EmbeddedProvider

_SHORTEST, _LONGEST = 3600, 2_592_000
_UPLOADS_AT_ONCE: Final = 2


class FileRoutes:
    """The routes of uploaded files."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider
        self._uploads = asyncio.Semaphore(_UPLOADS_AT_ONCE)

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes below `/v1`."""
        one = "/files/{file_id}"
        return [
            Route("/files", answered(self._create), methods=["POST"]),
            Route("/files", answered(self._list), methods=["GET"]),
            Route(one, answered(self._retrieve), methods=["GET"]),
            Route(one, answered(self._delete), methods=["DELETE"]),
            Route(f"{one}/content", answered(self._content), methods=["GET"]),
        ]

    async def _create(self, request: Request) -> Response:
        async with read_form(request) as form:
            purpose = form.get("purpose")
            if not isinstance(purpose, str):
                raise invalid("Missing required parameter: 'purpose'.", "purpose")
            seconds = _seconds(form)
            access = access_of(request)
            # The form is on disk until here; the whole file is in memory while it is stored.
            async with self._uploads:
                name, data = await read_upload(form)
                stored = await self._provider.files.add(
                    name, data, purpose, access, seconds=seconds
                )
        return JSONResponse(stored.resource)

    async def _list(self, request: Request) -> Response:
        purpose = request.query_params.get("purpose")
        files = await self._provider.files.list(listed_owner(request), purpose)
        return page(request, [file.resource for file in files])

    async def _retrieve(self, request: Request) -> Response:
        return JSONResponse((await self._file(request)).resource)

    async def _delete(self, request: Request) -> Response:
        file_id = request.path_params["file_id"]
        await self._provider.files.delete(file_id, access_of(request))
        return JSONResponse({"id": file_id, "object": "file", "deleted": True})

    async def _content(self, request: Request) -> Response:
        stored = await self._file(request)
        path = await self._provider.files.path(stored)
        return attachment(stored.filename, stored.bytes, path)

    async def _file(self, request: Request) -> StoredFile:
        return await self._provider.files.get(request.path_params["file_id"], access_of(request))


def _seconds(form: FormData) -> int | None:
    value = form.get("expires_after[seconds]")
    anchor = form.get("expires_after[anchor]", "created_at")
    if anchor != "created_at":
        raise invalid("Files expire after their 'created_at'.", "expires_after")
    if value is None:
        return None
    text = str(value)
    if not text.isdecimal() or len(text) > 20 or not _SHORTEST <= int(text) <= _LONGEST:
        raise invalid(
            f"'expires_after.seconds' must be from {_SHORTEST} to {_LONGEST}.", "expires_after"
        )
    return int(text)
