"""`/v1/messages`, and the models and files of the Messages API.

Its models and files have the paths of OpenAI's: a request with the header `anthropic-version` means
the Messages API.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Match, Route

from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.http.bodies import (
    Handler,
    access_of,
    attachment,
    read_form,
    read_json,
    read_upload,
    whole_number,
)
from toolcrib.embedded.http.message_api import is_message_api
from toolcrib.embedded.http.warning import warning_headers
from toolcrib.embedded.messages.service import FAILED, error_of
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from starlette.types import Scope

    from toolcrib.embedded.containers.container import ContainerFile
    from toolcrib.embedded.file_repository import StoredFile
    from toolcrib.embedded.messages.service import ActiveMessage
    from toolcrib.embedded.provider import EmbeddedProvider

logger = logging.getLogger(__name__)

_UPLOADED: Final = "user_data"
_UPLOADS_AT_ONCE: Final = 2


class MessageApiRoute(Route):
    """A route that only requests of the Messages API take."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the request is of the Messages API, and its path and method are the route's."""
        if not is_message_api(scope):
            return Match.NONE, {}
        return super().matches(scope)


class MessageRoutes:
    """The routes of the Messages API."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider
        self._uploads = asyncio.Semaphore(_UPLOADS_AT_ONCE)

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes below `/v1`."""
        file = "/files/{file_id}"
        return [
            Route("/messages", answered(self._create), methods=["POST"]),
            Route("/messages/count_tokens", answered(self._count), methods=["POST"]),
            MessageApiRoute("/models", answered(self._models), methods=["GET"]),
            MessageApiRoute("/models/{model:path}", answered(self._model), methods=["GET"]),
            MessageApiRoute("/files", answered(self._upload), methods=["POST"]),
            MessageApiRoute("/files", answered(self._files), methods=["GET"]),
            MessageApiRoute(file, answered(self._file), methods=["GET"]),
            MessageApiRoute(file, answered(self._delete), methods=["DELETE"]),
            MessageApiRoute(f"{file}/content", answered(self._content), methods=["GET"]),
        ]

    async def _create(self, request: Request) -> Response:
        body = await read_json(request)
        active = await self._provider.messages.create(body, access_of(request))
        headers = warning_headers(active.unknown, active.warnings)
        if body.get("stream") is True:
            return StreamingResponse(
                _lines(active),
                media_type="text/event-stream",
                headers={"cache-control": "no-store", "x-accel-buffering": "no", **headers},
            )
        return JSONResponse(await _finished(request, active), headers=headers)

    async def _count(self, request: Request) -> Response:
        body, access = await read_json(request), access_of(request)
        return JSONResponse({"input_tokens": await self._provider.messages.count(body, access)})

    async def _models(self, request: Request) -> Response:
        return page(request, [_model(model) for model in self._provider.models])

    async def _model(self, request: Request) -> Response:
        name = request.path_params["model"]
        for model in self._provider.models:
            if model["id"] == name:
                return JSONResponse(_model(model))
        raise ApiFault(404, f"model: {name[:80]}")

    async def _upload(self, request: Request) -> Response:
        async with read_form(request) as form:
            access = access_of(request)
            # The form is on disk until here; the whole file is in memory while it is stored.
            async with self._uploads:
                name, data = await read_upload(form)
                stored = await self._provider.files.add(name, data, _UPLOADED, access)
        return JSONResponse(_metadata(stored))

    async def _files(self, request: Request) -> Response:
        files = await self._provider.files.list(access_of(request).owner, None)
        shown = [_metadata(each) for each in files]
        return page(request, list(reversed(shown)))

    async def _file(self, request: Request) -> Response:
        file_id, access = request.path_params["file_id"], access_of(request)
        made = await self._provider.containers.file(file_id, access)
        if made is not None:
            return JSONResponse(_metadata(made[1]))
        stored = await self._provider.files.get(file_id, access)
        return JSONResponse(_metadata(stored))

    async def _delete(self, request: Request) -> Response:
        file_id, access = request.path_params["file_id"], access_of(request)
        made = await self._provider.containers.file(file_id, access)
        if made is not None:
            await self._provider.containers.files.remove(*made)
        else:
            await self._provider.files.delete(file_id, access)
        return JSONResponse({"id": file_id, "type": "file_deleted"})

    async def _content(self, request: Request) -> Response:
        file_id, access = request.path_params["file_id"], access_of(request)
        made = await self._provider.containers.file(file_id, access)
        if made is None:
            stored = await self._provider.files.get(file_id, access)
            path = await self._provider.files.path(stored)
            return attachment(stored.filename, stored.bytes, path)
        data = await self._provider.containers.files.read(*made)
        return attachment(made[1].filename, len(data), data)


def answered(handler: Handler) -> Handler:
    """Wrap a handler: a fault becomes an error of the Messages API, and every answer has an id."""

    async def handle(request: Request) -> Response:
        request_id = new_id("req")
        try:
            response = await handler(request)
        except ApiFault as fault:
            response = error_response(fault, request_id)
        except ClientDisconnect:
            response = Response(status_code=499)
        except Exception:
            logger.exception("%s %s failed", request.method, request.url.path)
            response = error_response(ApiFault(500, FAILED), request_id)
        response.headers["request-id"] = request_id
        return response

    return handle


def error_response(
    fault: ApiFault, request_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    """A fault as the Messages API answers it."""
    body = {"type": "error", "error": error_of(fault), "request_id": request_id}
    return JSONResponse(body, status_code=fault.status, headers=headers)


def page(request: Request, resources: Sequence[Mapping[str, Any]]) -> Response:
    """One page of a list. Raises `ApiFault`."""
    limit = whole_number(request, "limit", 20, 1, 1000)
    ids = [resource["id"] for resource in resources]
    after, before = (request.query_params.get(key) for key in ("after_id", "before_id"))
    if missing := [each for each in (after, before) if each is not None and each not in ids]:
        raise invalid(f"There is no {missing[0][:80]!r} in this list.")
    first = 0 if after is None else ids.index(after) + 1
    last = len(ids) if before is None else ids.index(before)
    if before is not None and after is None:
        first = max(0, last - limit)
    shown = list(resources[first:last])[:limit]
    has_more = first > 0 if before is not None else first + len(shown) < last
    ends = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
    body = {"data": shown, "has_more": has_more, "first_id": ends[0], "last_id": ends[1]}
    return JSONResponse(body)


def _model(model: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model["id"],
        "display_name": model["id"],
        "created_at": _time(model["created"]),
        "lifecycle": "active",
    }


def _metadata(file: StoredFile | ContainerFile) -> dict[str, Any]:
    return {
        "type": "file",
        "id": file.id,
        "filename": file.filename,
        "mime_type": guess_type(file.filename)[0] or "application/octet-stream",
        "size_bytes": file.bytes,
        "created_at": _time(file.created_at),
        "downloadable": True,
    }


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


async def _finished(request: Request, active: ActiveMessage) -> dict[str, Any]:
    """The complete message. A client that disconnects cancels it."""
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait([active.task, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        await active.stop()
    return await active.finished()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _lines(active: ActiveMessage) -> AsyncIterator[bytes]:
    try:
        async for event in active.writer.events():
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    finally:
        await active.stop()
        if not active.task.cancelled():
            # The failure went out as an event.
            active.task.exception()
