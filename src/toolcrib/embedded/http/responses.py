"""`/v1/responses` and `/v1/models`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from toolcrib.embedded.http.bodies import answered, event_stream, page, read_json, whole_number
from toolcrib.embedded.http.socket import ResponseSocket
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.provider import EmbeddedProvider
    from toolcrib.embedded.responses.service import ActiveResponse

_MOST = 2**31


class ResponseRoutes:
    """The routes of responses."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes below `/v1`."""
        one = "/responses/{response_id}"
        return [
            Route("/responses", answered(self._create), methods=["POST"]),
            WebSocketRoute("/responses", ResponseSocket(self._provider)),
            Route("/responses/compact", answered(self._compact), methods=["POST"]),
            Route("/responses/input_tokens", answered(self._count), methods=["POST"]),
            Route(one, answered(self._retrieve), methods=["GET"]),
            Route(one, answered(self._delete), methods=["DELETE"]),
            Route(f"{one}/cancel", answered(self._cancel), methods=["POST"]),
            Route(f"{one}/input_items", answered(self._input_items), methods=["GET"]),
            Route("/models", answered(self._models), methods=["GET"]),
            Route("/models/{model:path}", answered(self._model), methods=["GET"]),
        ]

    async def _create(self, request: Request) -> Response:
        body = await read_json(request)
        active = await self._provider.responses.create(body)
        if active.writer.response["background"]:
            if body.get("stream"):
                return event_stream(active.writer.log.after())
            return JSONResponse(active.writer.response)
        if body.get("stream"):
            return event_stream(_until_left(active))
        return JSONResponse(await _finished(request, active))

    async def _compact(self, request: Request) -> Response:
        return JSONResponse(await self._provider.responses.compact(await read_json(request)))

    async def _count(self, request: Request) -> Response:
        count = await self._provider.responses.count(await read_json(request))
        return JSONResponse({"object": "response.input_tokens", "input_tokens": count})

    async def _retrieve(self, request: Request) -> Response:
        response_id = request.path_params["response_id"]
        if request.query_params.get("stream") == "true":
            after = whole_number(request, "starting_after", -1, 0, _MOST)
            return event_stream(await self._provider.responses.follow(response_id, after))
        return JSONResponse(await self._provider.responses.retrieve(response_id))

    async def _delete(self, request: Request) -> Response:
        return JSONResponse(
            await self._provider.responses.delete(request.path_params["response_id"])
        )

    async def _cancel(self, request: Request) -> Response:
        return JSONResponse(
            await self._provider.responses.cancel(request.path_params["response_id"])
        )

    async def _input_items(self, request: Request) -> Response:
        items = await self._provider.responses.input_items(request.path_params["response_id"])
        return page(request, items)

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": self._provider.models})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["model"]
        for model in self._provider.models:
            if model["id"] == name:
                return JSONResponse(model)
        raise ApiFault(404, f"The model '{name[:80]}' does not exist here.", code="model_not_found")


async def _finished(request: Request, active: ActiveResponse) -> dict[str, Any]:
    """The complete response. A client that disconnects cancels it."""
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait([active.task, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        await active.stop()
    return active.writer.response


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _until_left(active: ActiveResponse) -> AsyncIterator[dict[str, Any]]:
    try:
        async for event in active.writer.log.after():
            yield event
    finally:
        await active.stop()
