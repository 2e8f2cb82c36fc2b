"""`/v1/responses` and `/v1/models`.

Over WebSocket, `/v1/responses` gives one response after another on one connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.http.active_response import until_finished, until_left
from toolcrib.embedded.http.bodies import (
    access_of,
    answered,
    event_stream,
    page,
    read_json,
    whole_number,
)
from toolcrib.embedded.http.warning_header import warning_headers
from toolcrib.embedded.responses.compaction import CompactionRequest
from toolcrib.embedded.responses.conversation import HistoryCache
from toolcrib.embedded.responses.request import ResponseRequest, ignored_parameters
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.embedded.provider import EmbeddedProvider


logger = logging.getLogger(__name__)

MAX_WAITING: Final = 16
"""Queued requests of one connection. A client that sends more is disconnected."""

_HTTP_ONLY: Final = ("stream", "stream_options", "background")


class ResponseSocket:
    """The WebSocket route: takes `response.create` and sends the events of each response."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection until the client disconnects."""
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        await _ResponseConnection(self._provider, socket).serve()


class _ResponseConnection:
    def __init__(self, provider: EmbeddedProvider, socket: WebSocket) -> None:
        self._provider = provider
        self._socket = socket
        self._recent = HistoryCache()
        self._waiting: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING)

    async def serve(self) -> None:
        answer_task = asyncio.create_task(self._answer_all())
        try:
            while True:
                self._waiting.put_nowait(await self._read())
        except asyncio.QueueFull:
            await self._socket.close(1008, "too many requests wait")
        except WebSocketDisconnect:
            pass
        finally:
            answer_task.cancel()
            await asyncio.wait([answer_task])

    async def _read(self) -> str | None:
        """The next text message; None for a binary one."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code") or 1000)
        return message.get("text")

    async def _answer_all(self) -> None:
        while True:
            text = await self._waiting.get()
            try:
                await self._answer(text)
            except ApiFault as fault:
                self._recent.forget()
                await self._tell(_error(fault))
            except WebSocketDisconnect:
                return
            except Exception:
                logger.exception("a response over a socket failed")
                self._recent.forget()
                error = ApiFault(500, "The provider failed; see its log.", kind="server_error")
                await self._tell(_error(error))

    async def _answer(self, text: str | None) -> None:
        body = _read_create(text)
        is_input_only = body.pop("generate", None) is False
        active = await self._provider.responses.create(
            body, access_of(self._socket), self._recent, is_answered=not is_input_only
        )
        try:
            async for event in active.writer.log.after():
                await self._tell(event)
        finally:
            await active.stop()
        response = active.writer.response
        if response["status"] == "failed" or response["store"]:
            # A stored response is read from the repository; a failed one cannot be continued.
            self._recent.forget()
        else:
            self._recent.remember(response["id"], active.items)

    async def _tell(self, event: Mapping[str, Any]) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            await self._socket.send_text(json.dumps(event))


def _read_create(text: str | None) -> dict[str, Any]:
    try:
        read = json.loads(text or "")
    except (ValueError, RecursionError):
        raise invalid("The message is not valid JSON.", code="invalid_json") from None
    body = cast(dict[str, Any], read) if isinstance(read, dict) else {}
    kind = body.pop("type", None)
    if kind != "response.create":
        raise invalid(f"Unknown type of event: {str(kind)[:80]!r}.", "type", "unknown_event")
    for name in _HTTP_ONLY:
        if body.get(name):
            raise invalid(f"'{name}' is not supported over WebSocket; leave it out.", name)
    return body


def _error(fault: ApiFault) -> dict[str, Any]:
    code = fault.code or fault.kind
    error = {"type": fault.kind, "code": code, "message": fault.message, "param": fault.param}
    return {"type": "error", "status": fault.status, "error": error}


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
        active = await self._provider.responses.create(body, access_of(request))
        if active.writer.response["background"]:
            if body.get("stream"):
                return _warned(event_stream(active.writer.log.after()), active.warnings)
            return _warned(JSONResponse(active.writer.response), active.warnings)
        if body.get("stream"):
            events = until_left(active, active.writer.log.after())
            return _warned(event_stream(events), active.warnings)
        await until_finished(request, active)
        return _warned(JSONResponse(active.writer.response), active.warnings)

    async def _compact(self, request: Request) -> Response:
        body, access = await read_json(request), access_of(request)
        compacted = await self._provider.responses.compact(body, access)
        return _warned(JSONResponse(compacted), _ignored(body, CompactionRequest))

    async def _count(self, request: Request) -> Response:
        body, access = await read_json(request), access_of(request)
        count = await self._provider.responses.count(body, access)
        answer = JSONResponse({"object": "response.input_tokens", "input_tokens": count})
        return _warned(answer, _ignored(body, ResponseRequest))

    async def _retrieve(self, request: Request) -> Response:
        response_id, access = request.path_params["response_id"], access_of(request)
        responses = self._provider.responses
        if request.query_params.get("stream") == "true":
            after = whole_number(request, "starting_after", -1, 0, _MOST)
            return event_stream(await responses.follow(response_id, after, access))
        return JSONResponse(await responses.retrieve(response_id, access))

    async def _delete(self, request: Request) -> Response:
        response_id = request.path_params["response_id"]
        return JSONResponse(await self._provider.responses.delete(response_id, access_of(request)))

    async def _cancel(self, request: Request) -> Response:
        response_id = request.path_params["response_id"]
        return JSONResponse(await self._provider.responses.cancel(response_id, access_of(request)))

    async def _input_items(self, request: Request) -> Response:
        response_id = request.path_params["response_id"]
        items = await self._provider.responses.input_items(response_id, access_of(request))
        return page(request, items)

    def _listed_models(self) -> list[dict[str, Any]]:
        return [*self._provider.models, *self._provider.embedding_models]

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": self._listed_models()})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["model"]
        for model in self._listed_models():
            if model["id"] == name:
                return JSONResponse(model)
        raise ApiFault(404, f"The model '{name[:80]}' does not exist here.", code="model_not_found")


def _ignored(body: object, known: type[Any]) -> list[str]:
    names = ignored_parameters(body, known)
    return [f"ignored parameters: {', '.join(names)}"] if names else []


def _warned(response: Response, warnings: Sequence[str]) -> Response:
    """Add the header that official clients pass on and do not act upon."""
    if warnings:
        response.headers.update(warning_headers((), warnings))
    return response
