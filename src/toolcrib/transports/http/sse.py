"""Server-sent events on one response.

Sessions followed over HTTP, and answers that come with the events that led to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from toolcrib.runtime.event_reader import GAP, Envelope
from toolcrib.runtime.principal import OWNER
from toolcrib.serving.refusals import as_bytes, as_refused, refusal_json, send_refusal

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from toolcrib.errors import Refused
    from toolcrib.runtime.event_reader import EventReader
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.connections import Connections


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


async def paced(reader: EventReader, seconds: float) -> AsyncIterator[Envelope | Literal["quiet"]]:
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


MOST_LEFT = 10_000
"""How many events are sent between the last one read and the answer."""


async def stream_events(
    connections: Connections, reader: EventReader, receive: Receive, send: Send
) -> None:
    """Send what happens in a session until the client leaves, falls too far behind, or the server
    closes.
    """
    stream = EventStream(send)
    await stream.begin()
    try:
        async with connections.reading(reader, receive):
            await _send_all(stream, reader, connections.heartbeat)
    except Exception as error:
        await stream.refusal(as_refused(error, "events.list"))
        return
    await stream.end()


@dataclass(frozen=True, slots=True)
class StreamedOperation:
    """An operation on a session, whose events are shown from `after` until it is answered."""

    operation: str
    session_id: str
    after: int
    reader: EventReader
    asking: asyncio.Future[Any]


async def stream_answer(
    runtime: Runtime,
    connections: Connections,
    streamed: StreamedOperation,
    receive: Receive,
    send: Send,
) -> None:
    """Send the session's events until the answer, and then the answer. When the client leaves, the
    work goes on.
    """
    stream, asking = EventStream(send), streamed.asking
    asking.add_done_callback(lambda _: streamed.reader.close())
    try:
        async with connections.reading(streamed.reader, receive) as gone:
            seen = await _send_all(stream, streamed.reader, connections.heartbeat)
            await _wait(stream, asking, gone, connections.heartbeat)
        if gone.done() and not gone.cancelled():
            return
        answer = asking.result()
        if seen is not None:
            await _send_rest(runtime, stream, streamed, max(seen, streamed.after))
    except Exception as error:
        await stream.refusal(as_refused(error, streamed.operation))
        return
    await stream.result(answer)


async def _wait(
    stream: EventStream, asking: asyncio.Future[Any], gone: asyncio.Future[None], seconds: float
) -> None:
    """Wait for the answer when there are no more events to show: the client was cut, or the server
    closes.
    """
    while not asking.done() and not gone.done():
        done, _ = await asyncio.wait(
            [asking, gone], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            await stream.heartbeat()


async def _send_rest(
    runtime: Runtime, stream: EventStream, streamed: StreamedOperation, seen: int
) -> None:
    """What was written while the reader was being closed."""
    params = {"session_id": streamed.session_id, "after": seen, "limit": MOST_LEFT}
    rest = await runtime.ask("events.list", params, OWNER)
    for told in rest.events:
        await stream.envelope(Envelope(**told))


async def _send_all(stream: EventStream, reader: EventReader, heartbeat: float) -> int | None:
    """Send until the reader ends: the last place sent, or None when it was cut with a gap."""
    seen = 0
    async for each in paced(reader, heartbeat):
        if each == "quiet":
            await stream.heartbeat()
            continue
        await stream.envelope(each)
        if each.kind == GAP:
            return None
        seen = each.seq
    return seen
