"""The events of a session over HTTP, followed across lost connections and restarts."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx2

from toolcrib.client.http_requests import refusal_in
from toolcrib.errors import Refused
from toolcrib.runtime.event_reader import Envelope
from toolcrib.transports.subscriptions import ENDED

if TYPE_CHECKING:
    from toolcrib.client.http_requests import HttpRequests

QUIET_SECONDS: Final = 60.0
"""A connection without a sign of life for this long is lost; servers send one every 15 seconds."""
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0
_PASSING_KINDS: Final = ("unavailable", "closing", "conflict", "busy", "too_many_requests")
"""Refusals that may be over in a moment: the server starts, or its last process has the session."""
_FIELDS: Final = frozenset(field.name for field in fields(Envelope))


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One message of a stream."""

    event: str
    data: str


async def server_sent_events(response: httpx2.Response) -> AsyncGenerator[ServerSentEvent]:
    """The messages of a response; comments are passed over."""
    event, data = "", list[str]()
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield ServerSentEvent(event, "\n".join(data))
            event, data = "", []
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)


class StreamedEnvelopes:
    """The envelopes of a session on a server. A connection that is lost is made again, for at most
    `reconnect_seconds`, and goes on after the last recorded event. A session that a restarted
    server does not have open is resumed.
    """

    def __init__(
        self,
        requests: HttpRequests,
        session_id: str,
        after: int,
        *,
        resume: Callable[[str], Awaitable[Any]],
        reconnect_seconds: float,
    ) -> None:
        self._requests = requests
        self._session_id = session_id
        self._seq = after
        self._resume = resume
        self._reconnect_seconds = reconnect_seconds
        self._response: httpx2.Response | None = None
        self._messages: AsyncGenerator[ServerSentEvent] | None = None

    async def connect(self) -> None:
        """Begin to follow the session. Raises `Refused`."""
        path = f"/v1/sessions/{quote(self._session_id, safe='')}/events"
        response = await self._requests.open_stream(path, {"after": str(self._seq)}, QUIET_SECONDS)
        self._response, self._messages = response, server_sent_events(response)

    async def aclose(self) -> None:
        """Follow the session no longer."""
        messages, response = self._messages, self._response
        self._messages = self._response = None
        if messages is not None:
            await messages.aclose()
        if response is not None:
            await response.aclose()

    async def __anext__(self) -> Envelope:
        while True:
            message = await self._next()
            if message is None:
                await self._reconnect()
            elif message.event == ENDED:
                raise StopAsyncIteration
            elif message.event == "error":
                raise refusal_in(200, message.data)
            else:
                members = json.loads(message.data)
                envelope = Envelope(**{key: members[key] for key in _FIELDS & members.keys()})
                self._seq = envelope.seq if envelope.is_kept else self._seq
                return envelope

    async def _next(self) -> ServerSentEvent | None:
        """The next message; None when the connection is lost."""
        if self._messages is None:
            return None
        try:
            return await anext(self._messages, None)
        except (httpx2.TransportError, httpx2.StreamError):
            return None

    async def _reconnect(self) -> None:
        await self.aclose()
        last_try, delay = time.monotonic() + self._reconnect_seconds, _FIRST_DELAY
        while True:
            try:
                return await self._connect_again()
            except Refused as refused:
                if refused.kind not in _PASSING_KINDS or time.monotonic() > last_try:
                    raise
            await self._requests.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _connect_again(self) -> None:
        try:
            await self.connect()
        except Refused as refused:
            if refused.kind != "not_found":
                raise
            # A server that was restarted has no session open.
            await self._resume(self._session_id)
            await self.connect()
