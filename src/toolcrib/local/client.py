"""The official SDK's client, reaching a provider in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any, Final

from httpx2 import AsyncBaseTransport, AsyncByteStream, AsyncClient, Request, Response
from openai import AsyncOpenAI

BASE_URL: Final = "http://toolcrib.local/v1"
_WAITING: Final = 64
"""Pieces of a body that may wait for a reader before the provider waits too."""


def in_process_client(app: Any) -> AsyncOpenAI:
    """A client whose requests never leave the process."""
    http = AsyncClient(transport=InProcess(app))
    return AsyncOpenAI(api_key="none", base_url=BASE_URL, http_client=http, max_retries=0)


class InProcess(AsyncBaseTransport):
    """Asks an ASGI application. Unlike the transport that comes with the SDK's HTTP library, it
    gives a body while it is written, so that streams are streams.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def handle_async_request(self, request: Request) -> Response:
        """Send one request; its body is read as it comes."""
        exchange = _Exchange(await request.aread())
        task = asyncio.create_task(exchange.run(self._app, _scope(request)))
        try:
            start = await exchange.started()
        except BaseException:
            task.cancel()
            raise
        return Response(
            start["status"],
            headers=start.get("headers", []),
            stream=_Body(exchange, task),
            request=request,
        )


class _Exchange:
    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._start: asyncio.Future[MutableMapping[str, Any]] = (
            asyncio.get_running_loop().create_future()
        )
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self.left = asyncio.Event()

    async def run(self, app: Any, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            if not self._start.done():
                self._start.set_exception(error)
        finally:
            if not self._start.done():
                self._start.cancel()
            await self.pieces.put(None)

    async def started(self) -> MutableMapping[str, Any]:
        return await self._start

    async def _receive(self) -> dict[str, Any]:
        if self._body is None:
            await self.left.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._start.set_result(message)
        elif message.get("body") and not self.left.is_set():
            await self.pieces.put(message["body"])


class _Body(AsyncByteStream):
    def __init__(self, exchange: _Exchange, task: asyncio.Task[None]) -> None:
        self._exchange = exchange
        self._task = task

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._exchange.pieces.get()) is not None:
            yield piece

    async def aclose(self) -> None:
        """Whoever reads has left; the application is told and may end."""
        self._exchange.left.set()
        while not self._task.done():
            await _empty(self._exchange.pieces)
            await asyncio.wait([self._task], timeout=0.01)


async def _empty(pieces: asyncio.Queue[bytes | None]) -> None:
    while not pieces.empty():
        pieces.get_nowait()


def _scope(request: Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }
