"""Clients of the official SDKs that call a provider in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from httpx2 import (
    AsyncBaseTransport,
    AsyncByteStream,
    AsyncClient,
    BaseTransport,
    Client,
    Request,
    Response,
    SyncByteStream,
)

from toolcrib.errors import UsageError
from toolcrib.extras import install_command

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from toolcrib.portal import Portal

HOST_URL: Final = "http://toolcrib.local"
BASE_URL: Final = f"{HOST_URL}/v1"
_WAITING: Final = 64
"""Chunks of a body that are buffered before the provider must wait for the reader."""


def in_process_client(app: Any, portal: Portal) -> AsyncOpenAI:
    """A client whose requests never leave the process. Any event loop may use it."""
    from openai import AsyncOpenAI

    http = AsyncClient(transport=InProcessTransport(app, portal))
    return AsyncOpenAI(api_key="none", base_url=BASE_URL, http_client=http, max_retries=0)


def in_process_sync_client(app: Any, portal: Portal) -> OpenAI:
    """The blocking client. The portal's loop must run on another thread."""
    from openai import OpenAI

    http = Client(transport=InProcessSyncTransport(app, portal))
    return OpenAI(api_key="none", base_url=BASE_URL, http_client=http, max_retries=0)


def in_process_anthropic(app: Any, portal: Portal) -> Any:
    """Anthropic's client. Any event loop may use it. Raises `UsageError` without its SDK."""
    http = AsyncClient(transport=InProcessTransport(app, portal))
    return _anthropic().AsyncAnthropic(
        api_key="none", base_url=HOST_URL, http_client=http, max_retries=0
    )


def in_process_sync_anthropic(app: Any, portal: Portal) -> Any:
    """Anthropic's blocking client. Raises `UsageError` without its SDK."""
    http = Client(transport=InProcessSyncTransport(app, portal))
    return _anthropic().Anthropic(
        api_key="none", base_url=HOST_URL, http_client=http, max_retries=0
    )


def _anthropic() -> Any:
    try:
        import anthropic
    except ImportError:
        raise UsageError(
            f"this client needs Anthropic's SDK; run: {install_command('anthropic')}"
        ) from None
    return anthropic


class InProcessTransport(AsyncBaseTransport):
    """Calls an ASGI application on its own event loop.

    Unlike the ASGI transport of httpx, it passes a body on while the application writes it, so
    that streamed responses arrive as a stream.
    """

    def __init__(self, app: Any, portal: Portal) -> None:
        self._app = app
        self._portal = portal

    async def handle_async_request(self, request: Request) -> Response:
        """Send one request; its body is read as it comes."""
        exchange = _Exchange(_scope(request), await request.aread())
        start = await self._portal.run_from_loop(exchange.start(self._app))
        return _response(request, start, _Body(exchange, self._portal))


class InProcessSyncTransport(BaseTransport):
    """The same for blocking clients."""

    def __init__(self, app: Any, portal: Portal) -> None:
        self._app = app
        self._portal = portal

    def handle_request(self, request: Request) -> Response:
        """Send one request; its body is read as it comes."""
        exchange = _Exchange(_scope(request), request.read())
        start = self._portal.run_from_thread(exchange.start(self._app))
        return _response(request, start, _SyncBody(exchange, self._portal))


class _Body(AsyncByteStream):
    def __init__(self, exchange: _Exchange, portal: Portal) -> None:
        self._exchange = exchange
        self._portal = portal

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._portal.run_from_loop(self._exchange.piece())) is not None:
            yield piece

    async def aclose(self) -> None:
        await self._portal.run_from_loop(self._exchange.leave())


class _SyncBody(SyncByteStream):
    def __init__(self, exchange: _Exchange, portal: Portal) -> None:
        self._exchange = exchange
        self._portal = portal

    def __iter__(self) -> Iterator[bytes]:
        while (piece := self._portal.run_from_thread(self._exchange.piece())) is not None:
            yield piece

    def close(self) -> None:
        self._portal.run_from_thread(self._exchange.leave())


def _response(request: Request, start: MutableMapping[str, Any], body: Any) -> Response:
    headers = start.get("headers", [])
    return Response(start["status"], headers=headers, stream=body, request=request)


class _Exchange:
    """One request and its response. All methods run on the portal's loop."""

    def __init__(self, scope: dict[str, Any], body: bytes) -> None:
        self._scope = scope
        self._body: bytes | None = body
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self._left = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[MutableMapping[str, Any]]

    async def start(self, app: Any) -> MutableMapping[str, Any]:
        """Send the request and wait for the status and the headers."""
        self._begun = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(app))
        try:
            return await self._begun
        except BaseException:
            # The client is gone: the application sees a disconnect and ends its work.
            self._left.set()
            raise

    async def piece(self) -> bytes | None:
        """The next chunk of the body; None at its end."""
        return await self._pieces.get()

    async def leave(self) -> None:
        """Disconnect. The application has ended when this returns."""
        self._left.set()
        while self._task is not None and not self._task.done():
            while not self._pieces.empty():
                self._pieces.get_nowait()
            await asyncio.wait([self._task], timeout=0.01)

    async def _run(self, app: Any) -> None:
        try:
            await app(self._scope, self._receive, self._send)
        except Exception as error:
            if not self._begun.done():
                self._begun.set_exception(error)
        finally:
            if not self._begun.done():
                self._begun.cancel()
            await self._pieces.put(None)

    async def _receive(self) -> dict[str, Any]:
        if self._body is None:
            await self._left.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if not self._begun.done():
                self._begun.set_result(message)
        elif message.get("body") and not self._left.is_set():
            await self._pieces.put(message["body"])


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
