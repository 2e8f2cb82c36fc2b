"""A client of JSON-RPC for tests: whatever sends frames and gives frames can carry it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.errors import Refused
from toolcrib.serving.refusals import REFUSALS

Json = Any
Send = Callable[[str], Awaitable[None]]


class RpcError(Exception):
    """An error of the protocol itself."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]


class RpcClient:
    """Sends with `send`; give it every frame that comes with `take`, and `lost` at the end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: dict[Any, asyncio.Future[Json]] = {}
        self._events: dict[str, asyncio.Queue[Json]] = {}
        self._count = 0
        self.complaints: asyncio.Queue[Json] = asyncio.Queue()
        """Errors of what was not asked with `begin`."""
        self.told: asyncio.Queue[Json] = asyncio.Queue()
        """Notifications other than events, and requests of the other side."""

    async def begin(self, method: str, params: Json = None, request_id: Any = None) -> Any:
        """Ask without waiting; gives the id."""
        self._count += 1
        request_id = self._count if request_id is None else request_id
        self._waiting[request_id] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        await self.send(message if params is None else {**message, "params": params})
        return request_id

    async def end(self, request_id: Any) -> Json:
        """Wait for the answer to a request."""
        return await self._waiting[request_id]

    async def ask(self, method: str, params: Json = None) -> Json:
        """Ask and wait. Raises `Refused`, or `RpcError` for an error of the protocol."""
        return await self.end(await self.begin(method, params))

    async def notify(self, method: str, params: Json) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def send(self, message: Json) -> None:
        await self._send(json.dumps(message))

    def is_answered(self, request_id: Any) -> bool:
        return self._waiting[request_id].done()

    def events(self, session_id: str) -> asyncio.Queue[Json]:
        """Where the events of a session come."""
        return self._events.setdefault(session_id, asyncio.Queue())

    def take(self, frame: str) -> None:
        message = json.loads(frame)
        assert message["jsonrpc"] == "2.0"
        if message.get("method") == "event":
            self.events(message["params"]["session_id"]).put_nowait(message["params"])
        elif "method" in message:
            self.told.put_nowait(message)
        elif message["id"] not in self._waiting:
            self.complaints.put_nowait(message.get("error"))
        elif "error" in message:
            self._waiting[message["id"]].set_exception(_raised(message["error"]))
        else:
            self._waiting[message["id"]].set_result(message["result"])

    def lost(self) -> None:
        """Nothing more comes."""
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the other side is gone"))
                answer.exception()


def _raised(error: Json) -> Exception:
    data = error.get("data")
    if data is None:
        return RpcError(error)
    assert REFUSALS[data["kind"]].code == error["code"]
    return Refused(data["kind"], error["message"], data["facts"])
