"""The suite over REST with its events, and again with every answer streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import httpx2

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import OWNERS, STREAM, TOKENS, events_of
from tests.transports.shop import shop
from tests.transports.suite import SESSION, AskingDriver, Driver, Json, Opened, column
from toolcrib.transports.http.routes import ROUTES
from toolcrib.transports.http.server import HttpServer

BY_NAME = {route.name: route for route in ROUTES}


class OverHttp(AskingDriver):
    """Asks routes."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def ask(self, method: str, params: Json) -> Json:
        answer = await self.client.send(self.request(method, params))
        assert answer.is_success, answer.text
        return answer.json()

    def request(self, method: str, params: Json, **headers: str) -> httpx2.Request:
        route = BY_NAME[method]
        rest = {name: value for name, value in params.items() if name not in route.in_path}
        path = route.path.format(**params)
        if route.verb == "POST":
            return self.client.build_request("POST", path, json=rest, headers=headers)
        return self.client.build_request(route.verb, path, params=rest, headers=headers)

    async def events(self) -> AsyncGenerator[Json]:
        path = f"/v1/sessions/{SESSION}/events"
        async with (
            self.client.stream("GET", path, headers=STREAM) as response,
            aclosing(events_of(response)) as events,
        ):
            async for sent in events:
                if sent.event:
                    yield sent.data


class OverStreams(OverHttp):
    """Asks routes, and reads answers from the end of their streams."""

    async def ask(self, method: str, params: Json) -> Json:
        if BY_NAME[method].streams != "answer":
            return await super().ask(method, params)
        answer = await self.client.send(self.request(method, params, **STREAM), stream=True)
        assert answer.headers["content-type"].startswith("text/event-stream")
        *_, last = [sent async for sent in events_of(answer)]
        assert last.event == "result"
        return last.data


def opened_by(driver: type[OverHttp]) -> Opened:
    @asynccontextmanager
    async def opened(has_model: bool) -> AsyncGenerator[Driver]:
        async with (
            shop(has_model=has_model) as runtime,
            HttpServer(runtime, port=0, tokens=TOKENS) as server,
            httpx2.AsyncClient(
                base_url=server.url, headers={"Authorization": f"Bearer {OWNERS}"}, timeout=PATIENCE
            ) as client,
        ):
            asking = driver(client)
            await asking.ask("session.create", {"session_id": SESSION})
            yield asking

    return opened


column("http", opened_by(OverHttp))
column("sse", opened_by(OverStreams))
