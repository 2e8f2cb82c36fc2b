"""The suite over a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import websockets
from websockets.asyncio.client import connect

from tests.transports.http.served_runtime import OWNERS, TOKENS
from tests.transports.shop import shop
from tests.transports.suite import SESSION, AskingDriver, Driver, Json, column
from toolcrib.transports.http.server import HttpServer


class OverSocket(AskingDriver):
    """Asks in frames of one socket."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._events: asyncio.Queue[Json] = asyncio.Queue()

    async def listen(self) -> None:
        async for frame in self._socket:
            told = json.loads(frame)
            if told.get("method") == "event":
                self._events.put_nowait(told["params"])
            elif "id" in told:
                self._waiting.pop(told["id"]).set_result(told)

    async def ask(self, method: str, params: Json) -> Json:
        number = id(answer := asyncio.get_running_loop().create_future())
        self._waiting[number] = answer
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        await self._socket.send(json.dumps(message))
        told = await answer
        assert "result" in told, told
        return told["result"]

    async def events(self) -> AsyncGenerator[Json]:
        await self.ask("events.subscribe", {"session_id": SESSION})
        try:
            while True:
                yield await self._events.get()
        finally:
            await self.ask("events.unsubscribe", {"session_id": SESSION})


@asynccontextmanager
async def opened(has_model: bool) -> AsyncGenerator[Driver]:
    async with (
        shop(has_model=has_model) as runtime,
        HttpServer(runtime, port=0, tokens=TOKENS) as server,
        connect(
            server.url.replace("http", "ws") + "/v1/ws",
            additional_headers={"Authorization": f"Bearer {OWNERS}"},
            proxy=None,
        ) as socket,
    ):
        driver = OverSocket(socket)
        listening = asyncio.ensure_future(driver.listen())
        await driver.ask("session.create", {"session_id": SESSION})
        yield driver
        listening.cancel()


column("websocket", opened)
