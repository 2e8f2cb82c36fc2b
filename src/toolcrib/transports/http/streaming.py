"""Sessions followed over HTTP, and answers that come with the events that led to them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.runtime.envelope import GAP, Envelope
from toolcrib.runtime.principal import OWNER
from toolcrib.transports.http.sse import EventStream, paced
from toolcrib.transports.refusals import as_refused

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from toolcrib.runtime.envelope import Reader
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.connections import Connections

MOST_LEFT = 10_000
"""How many events are sent between the last one read and the answer."""


async def stream_events(
    connections: Connections, reader: Reader, receive: Receive, send: Send
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
class Question:
    """An operation on a session, whose events are shown from `after` until it is answered."""

    operation: str
    session_id: str
    after: int
    reader: Reader
    asking: asyncio.Future[Any]


async def stream_answer(
    runtime: Runtime,
    connections: Connections,
    question: Question,
    receive: Receive,
    send: Send,
) -> None:
    """Send the session's events until the answer, and then the answer. When the client leaves, the
    work goes on.
    """
    stream, asking = EventStream(send), question.asking
    asking.add_done_callback(lambda _: question.reader.close())
    try:
        async with connections.reading(question.reader, receive) as gone:
            seen = await _send_all(stream, question.reader, connections.heartbeat)
            await _wait(stream, asking, gone, connections.heartbeat)
        if gone.done() and not gone.cancelled():
            return
        answer = asking.result()
        if seen is not None:
            await _send_rest(runtime, stream, question, max(seen, question.after))
    except Exception as error:
        await stream.refusal(as_refused(error, question.operation))
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


async def _send_rest(runtime: Runtime, stream: EventStream, question: Question, seen: int) -> None:
    """What was written while the reader was being closed."""
    params = {"session_id": question.session_id, "after": seen, "limit": MOST_LEFT}
    rest = await runtime.ask("events.list", params, OWNER)
    for told in rest.events:
        await stream.envelope(Envelope(**told))


async def _send_all(stream: EventStream, reader: Reader, heartbeat: float) -> int | None:
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
