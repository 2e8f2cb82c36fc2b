"""One operation at its route."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolcrib.errors import Refused
from toolcrib.transports.http.answers import as_bytes, send_json, send_refusal
from toolcrib.transports.http.gate import headers_of, principal_of
from toolcrib.transports.http.headers import Headers, text_of, wants_stream
from toolcrib.transports.http.reading import read_params
from toolcrib.transports.http.streaming import Question, stream_answer, stream_events
from toolcrib.transports.refusals import as_refused

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.envelope import Reader
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.connections import Connections
    from toolcrib.transports.http.routes import OperationRoute


class OperationEndpoint:
    """Answers one operation, with JSON or with a stream of events. An ASGI application."""

    def __init__(self, runtime: Runtime, route: OperationRoute, connections: Connections) -> None:
        self._runtime = runtime
        self._route = route
        self._connections = connections
        self._limit = runtime.config.max_payload_bytes
        self._ask = runtime.ask_here if connections.keeps_tasks else runtime.ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        route, headers, who = self._route, headers_of(scope), principal_of(scope)
        prepared: bytes | Reader | Question
        try:
            params = await read_params(route, scope, receive, headers, self._limit)
            if b"last-event-id" in headers and route.streams != "never":
                _place(headers[b"last-event-id"].decode("latin-1"))
            if route.streams == "never" or not wants_stream(headers):
                prepared = as_bytes(await self._ask(route.name, params, who))
            elif route.streams == "events":
                prepared = self._follow(params, headers, who)
            else:
                prepared = await self._question(params, headers, who)
        except Exception as error:
            await send_refusal(send, as_refused(error, route.name))
            return
        if isinstance(prepared, bytes):
            await send_json(send, route.status, prepared)
        elif isinstance(prepared, Question):
            await stream_answer(self._runtime, self._connections, prepared, receive, send)
        else:
            await stream_events(self._connections, prepared, receive, send)

    def _follow(self, params: dict[str, Any], headers: Headers, who: Principal) -> Reader:
        who.check(self._route.operation.scope, self._route.name)
        if (last := text_of(headers, b"last-event-id")) is not None:
            # A browser that comes back sends it with the address that it began with.
            params["after"] = _place(last)
        asked = self._route.operation.read(params)
        return self._runtime.service.follow(asked.session_id, max(0, asked.after), who)

    async def _question(self, params: dict[str, Any], headers: Headers, who: Principal) -> Question:
        runtime, session_id = self._runtime, params["session_id"]
        last = text_of(headers, b"last-event-id")
        session = await runtime.ask("session.get", {"session_id": session_id}, who)
        after = session.last_seq if last is None else _place(last)
        reader = runtime.service.follow(session_id, after, who)
        asking = asyncio.ensure_future(runtime.ask(self._route.name, params, who))
        asking.add_done_callback(_noticed)
        return Question(self._route.name, session_id, after, reader, asking)


def _place(told: str) -> int:
    if not told.isdecimal():
        raise Refused("invalid", "Last-Event-ID is the id of an event: a whole number")
    return int(told)


def _noticed(asking: asyncio.Future[Any]) -> None:
    """A client that has left does not hear of a refusal, and the loop need not complain of it."""
    if not asking.cancelled():
        asking.exception()
