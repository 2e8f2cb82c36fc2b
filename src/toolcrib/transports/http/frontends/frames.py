"""A response of server-sent events that are one JSON object each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol

from toolcrib.serving.refusals import as_bytes, as_refused, send_refusal
from toolcrib.transports.http.sse import STREAM_HEADERS, event_line

if TYPE_CHECKING:
    from starlette.types import Send

    from toolcrib.errors import Refused
    from toolcrib.serving.refusals import RawHeaders
    from toolcrib.transports.http.frontends.turn_parts import TurnPart

_ALIVE: Final = b": alive\n\n"


class Encoding(Protocol):
    """How a protocol writes a turn."""

    @property
    def headers(self) -> RawHeaders:
        """Headers of the response, besides those of every event stream."""
        ...

    @property
    def last_frame(self) -> bytes:
        """What ends the stream."""
        ...

    def events(self, part: TurnPart) -> Iterable[dict[str, Any]]:
        """The events for one part."""
        ...

    def failure(self, refused: Refused) -> Iterable[dict[str, Any]]:
        """The events for a refusal after the stream has begun."""
        ...


class FrameStream:
    """Sends a turn. The response begins with the first part, so that a request which is refused
    before has the HTTP status of its refusal.
    """

    def __init__(self, send: Send, encoding: Encoding) -> None:
        self._send = send
        self._encoding = encoding
        self._is_begun = False

    async def run(
        self,
        parts: AsyncGenerator[TurnPart | str],
        operation: str,
        is_gone: Callable[[], bool],
    ) -> None:
        """Send the parts to their end, or until the client is gone."""
        encoding = self._encoding
        refused: Refused | None = None
        try:
            async with aclosing(parts):
                async for part in parts:
                    if isinstance(part, str):
                        await self._write(_ALIVE)
                        continue
                    for event in encoding.events(part):
                        await self._event(event)
        except Exception as error:
            refused = as_refused(error, operation)
        if is_gone():
            return
        if refused is not None:
            if not self._is_begun:
                await send_refusal(self._send, refused)
                return
            for event in encoding.failure(refused):
                await self._event(event)
        await self._write(encoding.last_frame)
        await self._send({"type": "http.response.body", "body": b""})

    async def _event(self, event: dict[str, Any]) -> None:
        await self._write(b"data: %s\n\n" % event_line(as_bytes(event)))

    async def _write(self, chunk: bytes) -> None:
        if not self._is_begun:
            self._is_begun = True
            headers = [*STREAM_HEADERS, *self._encoding.headers]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
