"""Messages of the Agent Client Protocol on two pipes, one on each line."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib.transports.jsonrpc import (
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    error_frame,
    is_request_id,
    read_message,
)
from toolcrib.transports.pipes import Lines, PipeWriter, chunks
from toolcrib.transports.subscriptions import Outbox

if TYPE_CHECKING:
    from toolcrib.transports.pipes import Pipes

MOST_FRAMES: Final = 1_000
"""How many messages may wait for a client that does not read before no more are made for it."""
_UNKNOWN: Final = -32603
"""The code of an error whose own code does not matter to us."""


class LineTransport:
    """What the SDK's connection reads from and writes to. A line that is no message is answered
    with an error, and the next one is read.
    """

    def __init__(self, pipes: Pipes, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lines = Lines(most_bytes)
        self._chunks: AsyncIterator[bytes] | None = chunks(pipes.reads)
        self._read: deque[bytes] = deque()
        self._outbox = Outbox(most_frames=MOST_FRAMES, most_chars=2 * most_bytes)
        self._writing = asyncio.ensure_future(self._write(pipes.writes))

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when no more will come."""
        while True:
            await self._outbox.room()
            line = await self._next_line()
            if line is None:
                return None
            message = self._taken(read_message(line, self._most_bytes))
            if message is not None:
                return message

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message, whole, even if whoever waits for that leaves. Returns when another may
        be made.
        """
        self._outbox.put(to_json(message, inf_nan_mode="strings", fallback=str).decode())
        await self._outbox.room()

    async def close(self) -> None:
        """Take no more to send; what is there is still written."""
        self._outbox.close()

    async def written(self, seconds: float) -> None:
        """Wait until the client has read everything, or for `seconds`; then write no more."""
        self._outbox.close()
        await asyncio.wait([self._writing], timeout=seconds)
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)

    @property
    def ending(self) -> asyncio.Future[None]:
        """Done when nothing is written any more: the client has gone, or everything is sent."""
        return self._writing

    async def _next_line(self) -> bytes | None:
        while not self._read:
            if self._chunks is None:
                return None
            try:
                self._read.extend(self._lines.feed(await anext(self._chunks)))
            except StopAsyncIteration:
                self._chunks = None
                self._read.extend(self._lines.end())
        return self._read.popleft()

    def _taken(self, message: Message) -> dict[str, Any] | None:
        match message:
            case Malformed(code, text, request_id):
                self._outbox.put(error_frame(request_id, code, text))
                return None
            case Request(request_id, method, params):
                return {"id": request_id, "method": method, "params": params or {}}
            case Notification(method, params):
                return {"method": method, "params": params or {}}
            case Response(request_id, result, error):
                # The connection looks ids up as they are; one that no request has is dropped here.
                if not is_request_id(request_id):
                    return None
                if error is None:
                    return {"id": request_id, "result": result}
                return {"id": request_id, "error": {"code": _UNKNOWN, "message": error}}

    async def _write(self, writes: int) -> None:
        out = PipeWriter(writes)
        with suppress(OSError):
            async for frame in self._outbox.frames():
                await out.write(frame.encode() + b"\n")
