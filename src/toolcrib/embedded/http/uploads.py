"""`/v1/uploads` and their parts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.http.bodies import access_of, answered, read_form, read_object
from toolcrib.embedded.responses.request import read_body
from toolcrib.embedded.uploads.upload import MAX_PART_BYTES, completion_adapter, upload_adapter
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.provider import EmbeddedProvider

_AT_ONCE: Final = 2
"""Parts and files in memory at once."""


class UploadRoutes:
    """The routes of uploads."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider
        self._writers = asyncio.Semaphore(_AT_ONCE)

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes below `/v1`."""
        one = "/uploads/{upload_id}"
        return [
            Route("/uploads", answered(self._create), methods=["POST"]),
            Route(f"{one}/parts", answered(self._add_part), methods=["POST"]),
            Route(f"{one}/complete", answered(self._complete), methods=["POST"]),
            Route(f"{one}/cancel", answered(self._cancel), methods=["POST"]),
        ]

    async def _create(self, request: Request) -> Response:
        announced = read_body(upload_adapter(), await read_object(request))
        upload = await self._provider.uploads.create(announced, access_of(request))
        return JSONResponse(upload.resource())

    async def _add_part(self, request: Request) -> Response:
        upload_id, access = _named(request)
        await self._provider.uploads.check_pending(upload_id, access)
        async with read_form(request, MAX_PART_BYTES) as form:
            data = form.get("data")
            if not isinstance(data, UploadFile):
                raise invalid("Missing required parameter: 'data'.", "data")
            if data.size is not None and data.size > MAX_PART_BYTES:
                raise ApiFault(413, f"A part has at most {MAX_PART_BYTES} bytes.", param="data")
            async with self._writers:
                content = await data.read()
                part = await self._provider.uploads.add_part(upload_id, content, access)
        return JSONResponse(part.resource)

    async def _complete(self, request: Request) -> Response:
        upload_id, access = _named(request)
        wanted = read_body(completion_adapter(), await read_object(request))
        async with self._writers:
            upload, file = await self._provider.uploads.complete(upload_id, wanted, access)
        return JSONResponse(upload.resource(file.resource))

    async def _cancel(self, request: Request) -> Response:
        upload = await self._provider.uploads.cancel(*_named(request))
        return JSONResponse(upload.resource())


def _named(request: Request) -> tuple[str, ResourceAccess]:
    return request.path_params["upload_id"], access_of(request)
