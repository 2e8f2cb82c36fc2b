"""`/v1/chat/completions`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from toolcrib.embedded.http.active_response import until_finished, until_left
from toolcrib.embedded.http.bodies import (
    access_of,
    answered,
    listed_owner,
    page,
    read_json,
    read_object,
)
from toolcrib.embedded.http.metadata import listed_metadata, read_metadata
from toolcrib.embedded.http.warning_header import warning_headers

if TYPE_CHECKING:
    from toolcrib.embedded.provider import EmbeddedProvider


class ChatRoutes:
    """The routes of chat completions."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes below `/v1`."""
        one = "/chat/completions/{completion_id}"
        return [
            Route("/chat/completions", answered(self._create), methods=["POST"]),
            Route("/chat/completions", answered(self._list), methods=["GET"]),
            Route(one, answered(self._retrieve), methods=["GET"]),
            Route(one, answered(self._update), methods=["POST"]),
            Route(one, answered(self._delete), methods=["DELETE"]),
            Route(f"{one}/messages", answered(self._messages), methods=["GET"]),
        ]

    async def _create(self, request: Request) -> Response:
        completion = await self._provider.chat.create(await read_json(request), access_of(request))
        headers = warning_headers(completion.sent.unknown, completion.active.warnings)
        if completion.sent.request.stream:
            return chunk_stream(until_left(completion.active, completion.chunks()), headers)
        await until_finished(request, completion.active)
        return JSONResponse(await completion.whole(), headers=headers)

    async def _list(self, request: Request) -> Response:
        model = request.query_params.get("model")
        metadata = listed_metadata(request)
        completions = [
            completion
            for completion in await self._provider.chat.stored.list(listed_owner(request))
            if model in (None, completion["model"])
            and metadata.items() <= completion["metadata"].items()
        ]
        return page(request, completions, order="asc")

    async def _retrieve(self, request: Request) -> Response:
        return JSONResponse(await self._provider.chat.stored.get(*_named(request)))

    async def _update(self, request: Request) -> Response:
        completion_id, access = _named(request)
        metadata = read_metadata(await read_object(request), is_required=True)
        stored = self._provider.chat.stored
        return JSONResponse(await stored.describe(completion_id, metadata, access))

    async def _delete(self, request: Request) -> Response:
        completion_id, access = _named(request)
        await self._provider.chat.stored.delete(completion_id, access)
        answer = {"id": completion_id, "object": "chat.completion.deleted", "deleted": True}
        return JSONResponse(answer)

    async def _messages(self, request: Request) -> Response:
        messages = await self._provider.chat.stored.messages(*_named(request))
        return page(request, messages, order="asc")


def _named(request: Request) -> tuple[str, Any]:
    return request.path_params["completion_id"], access_of(request)


def chunk_stream(chunks: AsyncIterator[Mapping[str, Any]], headers: Mapping[str, str]) -> Response:
    """Server-sent events in the format of the Chat Completions API."""

    async def lines() -> AsyncIterator[bytes]:
        async for chunk in chunks:
            yield f"data: {json.dumps(chunk)}\n\n".encode()
        yield b"data: [DONE]\n\n"

    kept = {"cache-control": "no-store", "x-accel-buffering": "no", **headers}
    return StreamingResponse(lines(), media_type="text/event-stream", headers=kept)
