"""The suite through the Python client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.transports.http.served_runtime import OWNERS, TOKENS
from tests.transports.shop import shop
from tests.transports.suite import SESSION, AskingDriver, Driver, Json, column
from toolcrib.client import AsyncClient
from toolcrib.client.event_source import StreamedEnvelopes
from toolcrib.client.http_requests import HttpRequests
from toolcrib.runtime.service import as_json
from toolcrib.transports.http.server import HttpServer


class ByClient(AskingDriver):
    """Asks the methods of a client."""

    def __init__(self, client: AsyncClient, requests: HttpRequests) -> None:
        self._client = client
        self._requests = requests

    async def ask(self, method: str, params: Json) -> Json:
        return as_json(await self._client.run_operation(method, params))

    async def events(self) -> AsyncGenerator[Json]:
        source = StreamedEnvelopes(
            self._requests,
            SESSION,
            0,
            resume=self._client.resume_session,
            reconnect_seconds=1.0,
        )
        await source.connect()
        try:
            while True:
                yield as_json(await source.__anext__())
        finally:
            await source.aclose()


@asynccontextmanager
async def opened(has_model: bool) -> AsyncGenerator[Driver]:
    async with (
        shop(has_model=has_model) as runtime,
        HttpServer(runtime, port=0, tokens=TOKENS) as server,
        AsyncClient(server.url, OWNERS) as client,
    ):
        await client.open_session(SESSION)
        yield ByClient(client, client._requests)  # pyright: ignore[reportPrivateUsage]


column("client", opened)
