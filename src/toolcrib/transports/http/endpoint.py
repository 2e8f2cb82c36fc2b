"""One operation at its route.

What is asked, out of the path, the query, the headers and the body of a request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl

from pydantic_core import from_json

from toolcrib.errors import Refused
from toolcrib.serving.auth import Headers, accepts_events, header_text, headers_of, principal_of
from toolcrib.serving.refusals import (
    UNREADABLE_STATUS,
    HttpRefused,
    as_bytes,
    as_refused,
    send_json,
    send_refusal,
)
from toolcrib.serving.requests import body_too_large, read_body
from toolcrib.transports.http.sse import StreamedOperation, stream_answer, stream_events

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.event_reader import EventReader
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.connections import Connections
    from toolcrib.transports.http.routes import OperationRoute


_JSON: Final = b"application/json"


async def read_params(
    route: OperationRoute, scope: Scope, receive: Receive, headers: Headers, limit: int
) -> dict[str, Any]:
    """The parameters of an operation. Raises `Refused`."""
    told = query_of(scope)
    if route.verb == "POST":
        if told:
            raise Refused("invalid", "parameters of a POST go into its body, not the URL")
        told = await _read_json(receive, headers, limit)
        if "idempotency_key" in told:
            raise Refused("invalid", "send the key as the header Idempotency-Key")
    key = header_text(headers, b"idempotency-key")
    known: dict[str, Any] = scope["path_params"]
    if key is not None and route.verb != "GET":
        if not route.takes_key:
            raise Refused("invalid", f"{route.name} takes no Idempotency-Key; leave it out")
        known = {**known, "idempotency_key": key}
    for name in known:
        if name in told:
            raise Refused("invalid", f"{name} is told twice: leave it out of the body or query")
    told.update(known)
    return told


def query_of(scope: Scope) -> dict[str, Any]:
    """The query; a name that comes twice is refused."""
    raw: bytes = scope["query_string"]
    if not raw:
        return {}
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise HttpRefused(UNREADABLE_STATUS, "invalid", "the query cannot be read") from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Refused("invalid", f"{name[:80]!r} is in the query twice")
        found[name] = value
    return found


async def _read_json(receive: Receive, headers: Headers, limit: int) -> dict[str, Any]:
    media_type = headers.get(b"content-type", b"")
    if media_type != _JSON and media_type.partition(b";")[0].strip().lower() != _JSON:
        raise HttpRefused(415, "invalid", "send JSON, with `Content-Type: application/json`")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limit:
        raise body_too_large(limit)
    try:
        body = from_json(await read_body(receive, limit), allow_inf_nan=False)
    except ValueError:
        raise HttpRefused(UNREADABLE_STATUS, "invalid", "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Refused("invalid", "the body must be a JSON object")
    return cast("dict[str, Any]", body)


class OperationEndpoint:
    """Answers one operation, with JSON or with a stream of events. An ASGI application."""

    def __init__(self, runtime: Runtime, route: OperationRoute, connections: Connections) -> None:
        self._runtime = runtime
        self._route = route
        self._connections = connections
        self._limit = runtime.config.max_payload_bytes
        self._ask = runtime.ask_inline if connections.keeps_tasks else runtime.ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        route, headers, who = self._route, headers_of(scope), principal_of(scope)
        prepared: bytes | EventReader | StreamedOperation
        try:
            params = await read_params(route, scope, receive, headers, self._limit)
            if b"last-event-id" in headers and route.streams != "never":
                _place(headers[b"last-event-id"].decode("latin-1"))
            if route.streams == "never" or not accepts_events(headers):
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
        elif isinstance(prepared, StreamedOperation):
            await stream_answer(self._runtime, self._connections, prepared, receive, send)
        else:
            await stream_events(self._connections, prepared, receive, send)

    def _follow(self, params: dict[str, Any], headers: Headers, who: Principal) -> EventReader:
        who.check(self._route.operation.scope, self._route.name)
        if (last := header_text(headers, b"last-event-id")) is not None:
            # A browser that comes back sends it with the address that it began with.
            params["after"] = _place(last)
        asked = self._route.operation.read(params)
        return self._runtime.service.follow(asked.session_id, max(0, asked.after), who)

    async def _question(
        self, params: dict[str, Any], headers: Headers, who: Principal
    ) -> StreamedOperation:
        runtime, session_id = self._runtime, params["session_id"]
        last = header_text(headers, b"last-event-id")
        session = await runtime.ask("session.get", {"session_id": session_id}, who)
        after = session.last_seq if last is None else _place(last)
        reader = runtime.service.follow(session_id, after, who)
        asking = asyncio.ensure_future(runtime.ask(self._route.name, params, who))
        asking.add_done_callback(_noticed)
        return StreamedOperation(self._route.name, session_id, after, reader, asking)


def _place(told: str) -> int:
    if not told.isdecimal():
        raise Refused("invalid", "Last-Event-ID is the id of an event: a whole number")
    return int(told)


def _noticed(asking: asyncio.Future[Any]) -> None:
    """A client that has left does not hear of a refusal, and the loop need not complain of it."""
    if not asking.cancelled():
        asking.exception()
