"""Server-sent events on one response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, Literal

from toolcrib.runtime.envelope import Envelope
from toolcrib.transports.http.answers import as_bytes, refusal_json, send_refusal

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from toolcrib.errors import Refused
    from toolcrib.runtime.envelope import Reader

RESULT: Final = "result"
"""The last event of a streamed answer."""
ERROR: Final = "error"
"""The last event when an answer that had begun is refused."""

_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)


# Not ends of a line in this format; but many clients split lines by Unicode's rules.
_LINE_ENDS: Final = (
    ("\x85".encode(), b"\\u0085"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def _line(data: bytes) -> bytes:
    """JSON on what everybody takes for one line. Such characters stand only inside its strings."""
    for raw, escaped in _LINE_ENDS:
        data = data.replace(raw, escaped)
    return data


class EventStream:
    """A response of events. It begins with the first thing sent, so that what is refused before
    has the status of a refusal.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_begun = False

    async def begin(self) -> None:
        """Tell the client that the stream is there."""
        await self._write(b": open\n\n")

    async def envelope(self, envelope: Envelope) -> None:
        """Send one event; what is not kept has no id, since nobody can go on after it."""
        line = b"id: %d\n" % envelope.seq if envelope.is_kept else b""
        await self._event(envelope.kind, as_bytes(envelope), line)

    async def heartbeat(self) -> None:
        """Show that the connection stands."""
        await self._write(b": alive\n\n")

    async def result(self, answer: object) -> None:
        """Send the answer and end."""
        await self._event(RESULT, as_bytes(answer))
        await self.end()

    async def refusal(self, refused: Refused) -> None:
        """Send why there is no answer, and end."""
        if not self._is_begun:
            await send_refusal(self._send, refused)
            return
        await self._event(ERROR, as_bytes(refusal_json(refused)))
        await self.end()

    async def end(self) -> None:
        """Close the stream."""
        await self._send({"type": "http.response.body", "body": b""})

    async def _event(self, kind: str, data: bytes, id_line: bytes = b"") -> None:
        await self._write(b"%sevent: %s\ndata: %s\n\n" % (id_line, kind.encode(), _line(data)))

    async def _write(self, chunk: bytes) -> None:
        if not self._is_begun:
            self._is_begun = True
            await self._send(
                {"type": "http.response.start", "status": 200, "headers": list(_HEADERS)}
            )
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})


async def paced(reader: Reader, seconds: float) -> AsyncIterator[Envelope | Literal["quiet"]]:
    """The events of a reader, and "quiet" whenever none came for so long."""
    events = aiter(reader)
    upcoming = asyncio.ensure_future(_next(events))
    try:
        while True:
            await asyncio.wait([upcoming], timeout=seconds)
            if not upcoming.done():
                yield "quiet"
                continue
            envelope = upcoming.result()
            if envelope is None:
                return
            yield envelope
            upcoming = asyncio.ensure_future(_next(events))
    finally:
        upcoming.cancel()
        await asyncio.wait([upcoming])


async def _next(events: AsyncIterator[Envelope]) -> Envelope | None:
    return await anext(events, None)


async def client_left(receive: Receive) -> None:
    """Wait until the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
