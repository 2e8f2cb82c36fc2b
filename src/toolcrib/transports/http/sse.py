"""Server-sent events: the events of a session, or an operation's events and then its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from toolcrib.runtime.event_reader import GAP, Envelope
from toolcrib.runtime.principal import OWNER
from toolcrib.serving.refusals import as_bytes, as_refused, refusal_json, send_refusal
from toolcrib.transports.subscriptions import ENDED

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from toolcrib.errors import Refused
    from toolcrib.runtime.approval_messages import InboxState
    from toolcrib.runtime.event_reader import SessionReader
    from toolcrib.runtime.inbox_watch import InboxFeed
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.connections import Connections


T = TypeVar("T")

RESULT: Final = "result"
"""The last event of a streamed operation."""
INBOX_CHANGED: Final = "inbox.changed"
"""An event of the inbox: how much waits."""
ERROR: Final = "error"
"""The last event of a stream whose operation is refused."""

STREAM_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)


# Not line ends in this format, but many clients split lines by Unicode's rules.
_LINE_ENDS: Final = (
    ("\x85".encode(), b"\\u0085"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def event_line(data: bytes) -> bytes:
    """JSON on one line for every client. These characters occur only inside its strings."""
    for raw, escaped in _LINE_ENDS:
        data = data.replace(raw, escaped)
    return data


class EventStream:
    """A response of server-sent events. It starts with the first write, so that an operation which
    is refused before has the HTTP status of its refusal.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_begun = False

    async def begin(self) -> None:
        """Start the response."""
        await self._write(b": open\n\n")

    async def envelope(self, envelope: Envelope) -> None:
        """Send one event. A passing event has no id: a client cannot resume after it."""
        line = b"id: %d\n" % envelope.seq if envelope.is_kept else b""
        await self._event(envelope.kind, as_bytes(envelope), line)

    async def ended(self, session_id: str, seq: int) -> None:
        """Say that the session was closed: there is nothing to reconnect for."""
        await self._event(ENDED, as_bytes({"session_id": session_id, "seq": seq}))

    async def changed(self, state: InboxState) -> None:
        """Send the state of the inbox. It has no id: a client that reconnects gets the whole."""
        await self._event(INBOX_CHANGED, as_bytes(state))

    async def heartbeat(self) -> None:
        """Send a comment that keeps the connection open."""
        await self._write(b": alive\n\n")

    async def result(self, answer: object) -> None:
        """Send the result and end the stream."""
        await self._event(RESULT, as_bytes(answer))
        await self.end()

    async def refusal(self, refused: Refused) -> None:
        """Send a refusal and end the stream."""
        if not self._is_begun:
            await send_refusal(self._send, refused)
            return
        await self._event(ERROR, as_bytes(refusal_json(refused)))
        await self.end()

    async def end(self) -> None:
        """Close the stream."""
        await self._send({"type": "http.response.body", "body": b""})

    async def _event(self, kind: str, data: bytes, id_line: bytes = b"") -> None:
        await self._write(b"%sevent: %s\ndata: %s\n\n" % (id_line, kind.encode(), event_line(data)))

    async def _write(self, chunk: bytes) -> None:
        if not self._is_begun:
            self._is_begun = True
            await self._send(
                {"type": "http.response.start", "status": 200, "headers": list(STREAM_HEADERS)}
            )
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})


async def with_heartbeats(
    reader: AsyncIterable[T], seconds: float
) -> AsyncIterator[T | Literal["quiet"]]:
    """Yield the events of a reader, and "quiet" whenever none came for `seconds`."""
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


async def _next(events: AsyncIterator[T]) -> T | None:
    return await anext(events, None)


async def stream_inbox(
    connections: Connections, feed: InboxFeed, receive: Receive, send: Send
) -> None:
    """Send how much waits for a person, now and after each change, until the client disconnects or
    the server closes.
    """
    stream = EventStream(send)
    await stream.begin()
    try:
        async with connections.open_reader(feed, receive):
            async for state in with_heartbeats(feed, connections.heartbeat):
                if state == "quiet":
                    await stream.heartbeat()
                else:
                    await stream.changed(state)
    except Exception as error:
        await stream.refusal(as_refused(error, "approvals.events"))
        return
    await stream.end()


MAX_REMAINING = 10_000
"""How many recorded events may lie between the last one sent and the result."""


async def stream_events(
    connections: Connections, followed: FollowedSession, receive: Receive, send: Send
) -> None:
    """Send the events of a session until it is closed, the client disconnects or falls too far
    behind, or the server closes.
    """
    stream, reader = EventStream(send), followed.reader
    await stream.begin()
    try:
        async with connections.open_reader(reader, receive) as disconnected:
            seen = await _send_all(stream, reader, connections.heartbeat)
            is_over = seen is not None and not disconnected.done()
            if is_over and not (connections.is_closing or followed.runtime.is_closing):
                await stream.ended(followed.session_id, reader.seq)
    except Exception as error:
        await stream.refusal(as_refused(error, "events.list"))
        return
    await stream.end()


@dataclass(frozen=True, slots=True)
class FollowedSession:
    """A session whose events are sent as they happen."""

    runtime: Runtime
    session_id: str
    reader: SessionReader


@dataclass(frozen=True, slots=True)
class StreamedOperation:
    """A running operation on a session, whose events after `after` are sent before its result."""

    operation: str
    session_id: str
    after: int
    reader: SessionReader
    result: asyncio.Future[Any]


async def stream_operation(
    runtime: Runtime,
    connections: Connections,
    streamed: StreamedOperation,
    receive: Receive,
    send: Send,
) -> None:
    """Send the events of the session until the operation ends, then its result. The operation
    continues when the client disconnects.
    """
    stream, result = EventStream(send), streamed.result
    result.add_done_callback(lambda _: streamed.reader.close())
    try:
        async with connections.open_reader(streamed.reader, receive) as disconnected:
            seen = await _send_all(stream, streamed.reader, connections.heartbeat)
            await _wait(stream, result, disconnected, connections.heartbeat)
        if disconnected.done() and not disconnected.cancelled():
            return
        answer = result.result()
        if seen is not None:
            await _send_rest(runtime, stream, streamed, max(seen, streamed.after))
    except Exception as error:
        await stream.refusal(as_refused(error, streamed.operation))
        return
    await stream.result(answer)


async def _wait(
    stream: EventStream,
    result: asyncio.Future[Any],
    disconnected: asyncio.Future[None],
    seconds: float,
) -> None:
    """Wait for the result when the events have ended before it: the client fell behind, or the
    server closes.
    """
    while not result.done() and not disconnected.done():
        done, _ = await asyncio.wait(
            [result, disconnected], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            await stream.heartbeat()


async def _send_rest(
    runtime: Runtime, stream: EventStream, streamed: StreamedOperation, seen: int
) -> None:
    """Send the records that were written while the reader was being closed."""
    left = MAX_REMAINING
    while left > 0:
        params = {"session_id": streamed.session_id, "after": seen, "limit": left}
        rest = await runtime.ask("events.list", params, OWNER)
        if not rest.events:
            return
        for envelope in rest.events:
            await stream.envelope(Envelope(**envelope))
        left, seen = left - len(rest.events), rest.last_seq


async def _send_all(stream: EventStream, reader: SessionReader, heartbeat: float) -> int | None:
    """Send until the reader ends; the last sequence number, or None after a gap."""
    seen = 0
    async for envelope in with_heartbeats(reader, heartbeat):
        if envelope == "quiet":
            await stream.heartbeat()
            continue
        await stream.envelope(envelope)
        if envelope.kind == GAP:
            return None
        seen = envelope.seq
    return seen
