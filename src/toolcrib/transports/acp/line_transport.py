"""Messages of the Agent Client Protocol on two pipes, one per line."""

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

MAX_FRAMES: Final = 1_000
"""How many unsent messages there may be before producers wait."""
_UNKNOWN: Final = -32603
"""The code for a client's error, whose own code is not used."""


class LineTransport:
    """The transport of the SDK's connection. An invalid line is answered with an error, and the
    next one is read.
    """

    def __init__(self, pipes: Pipes, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lines = Lines(max_bytes)
        self._chunks: AsyncIterator[bytes] | None = chunks(pipes.reads)
        self._read: deque[bytes] = deque()
        self._outbox = Outbox(most_frames=MAX_FRAMES, most_chars=2 * max_bytes)
        self._writing = asyncio.ensure_future(self._write(pipes.writes))

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        while True:
            await self._outbox.room()
            line = await self._next_line()
            if line is None:
                return None
            message = self._parsed(read_message(line, self._max_bytes))
            if message is not None:
                return message

    async def send(self, message: dict[str, Any]) -> None:
        """Queue a message; it is sent even if the wait is cancelled. Returns when there is room for
        another.
        """
        self._outbox.put(to_json(message, inf_nan_mode="strings", fallback=str).decode())
        await self._outbox.room()

    async def close(self) -> None:
        """Accept no more messages; the queued ones are still written."""
        self._outbox.close()

    async def written(self, seconds: float) -> None:
        """Wait until the client has read everything, at most `seconds`; then stop writing."""
        self._outbox.close()
        await asyncio.wait([self._writing], timeout=seconds)
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)

    @property
    def ending(self) -> asyncio.Future[None]:
        """Done when writing has ended: the client has disconnected, or everything is sent."""
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

    def _parsed(self, message: Message) -> dict[str, Any] | None:
        match message:
            case Malformed(code, text, request_id):
                self._outbox.put(error_frame(request_id, code, text))
                return None
            case Request(request_id, method, params):
                return {"id": request_id, "method": method, "params": params or {}}
            case Notification(method, params):
                return {"method": method, "params": params or {}}
            case Response(request_id, result, error):
                # The connection looks ids up unchecked; an invalid id is dropped here.
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
