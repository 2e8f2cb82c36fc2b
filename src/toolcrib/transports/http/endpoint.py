"""The HTTP endpoint of an operation: parameters in, JSON or server-sent events out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl

from pydantic_core import from_json

from toolcrib.errors import Refused
from toolcrib.runtime.inbox_watch import InboxFeed
from toolcrib.runtime.messages import MAX_SEQ
from toolcrib.serving.auth import Headers, accepts_events, header_text, headers_of, principal_of
from toolcrib.serving.refusals import (
    UNREADABLE_STATUS,
    HttpRefused,
    as_bytes,
    as_refused,
    body_too_large,
    read_body,
    send_json,
    send_refusal,
)
from toolcrib.transports.http.call_download import CallPages, accepts_csv
from toolcrib.transports.http.sse import (
    FollowedSession,
    StreamedOperation,
    stream_events,
    stream_inbox,
    stream_operation,
)

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.connections import Connections
    from toolcrib.transports.http.routes import OperationRoute


_JSON: Final = b"application/json"
_MOST_DIGITS: Final = len(str(MAX_SEQ))


def ignore_bytes(count: int) -> None:
    """The size of a body, of a principal without limits."""


async def read_params(
    route: OperationRoute,
    scope: Scope,
    receive: Receive,
    headers: Headers,
    limit: int,
    on_bytes: Callable[[int], None] = ignore_bytes,
) -> dict[str, Any]:
    """The parameters of an operation from path, query, headers and body. Raises `Refused`.
    `on_bytes` gets the size of the body.
    """
    params = query_of(scope)
    if route.verb == "POST":
        if params:
            raise Refused("invalid", "send the parameters of a POST in its body, not in the URL")
        params = await read_json(receive, headers, limit, on_bytes)
        if "idempotency_key" in params:
            raise Refused("invalid", "send the idempotency key in the header Idempotency-Key")
    key = header_text(headers, b"idempotency-key")
    elsewhere: dict[str, Any] = scope["path_params"]
    if key is not None and route.verb != "GET":
        if not route.takes_key:
            raise Refused("invalid", f"{route.name} takes no Idempotency-Key; leave it out")
        elsewhere = {**elsewhere, "idempotency_key": key}
    for name in elsewhere:
        if name in params:
            raise Refused("invalid", f"duplicate parameter {name}; leave it out of body and query")
    params.update(elsewhere)
    return params


def query_of(scope: Scope) -> dict[str, Any]:
    """The parameters in the query. Raises `Refused` (invalid) for a duplicate."""
    raw: bytes = scope["query_string"]
    if not raw:
        return {}
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise HttpRefused(UNREADABLE_STATUS, "invalid", "the query cannot be parsed") from None
    params: dict[str, Any] = {}
    for name, value in pairs:
        if name in params:
            raise Refused("invalid", f"duplicate query parameter {name[:80]!r}")
        params[name] = value
    return params


async def read_json(
    receive: Receive, headers: Headers, limit: int, on_bytes: Callable[[int], None]
) -> dict[str, Any]:
    """The JSON object in a body. Raises `Refused`; `on_bytes` gets the size of the body."""
    media_type = headers.get(b"content-type", b"")
    if media_type != _JSON and media_type.partition(b";")[0].strip().lower() != _JSON:
        raise HttpRefused(415, "invalid", "send JSON, with `Content-Type: application/json`")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limit:
        raise body_too_large(limit)
    raw = await read_body(receive, limit)
    on_bytes(len(raw))
    try:
        body = from_json(raw, allow_inf_nan=False)
    except ValueError:
        raise HttpRefused(UNREADABLE_STATUS, "invalid", "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Refused("invalid", "the body must be a JSON object")
    return cast("dict[str, Any]", body)


class OperationEndpoint:
    """Answers one operation, with JSON or with server-sent events. An ASGI application."""

    def __init__(self, runtime: Runtime, route: OperationRoute, connections: Connections) -> None:
        self._runtime = runtime
        self._route = route
        self._connections = connections
        self._limit = runtime.config.max_payload_bytes
        self._ask = runtime.ask_inline if connections.keeps_tasks else runtime.ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        route, headers, who = self._route, headers_of(scope), principal_of(scope)
        response: bytes | FollowedSession | StreamedOperation | InboxFeed | CallPages
        try:
            quota = self._runtime.quotas.of(who)
            on_bytes = ignore_bytes if quota is None else quota.take_bytes
            params = await read_params(route, scope, receive, headers, self._limit, on_bytes)
            if b"last-event-id" in headers and route.streams != "never":
                _sequence_number(headers[b"last-event-id"].decode("latin-1"))
            if route.has_csv and accepts_csv(headers):
                response = await CallPages.begin(self._ask, params, who)
            elif route.streams == "never" or not accepts_events(headers):
                response = as_bytes(await self._ask(route.name, params, who))
            elif route.streams == "events":
                response = await self._follow(params, headers, who)
            elif route.streams == "inbox":
                who.check(route.operation.roles, route.name)
                route.operation.read(params)
                response = self._runtime.service.inbox.follow(who)
            else:
                response = await self._start_streamed(params, headers, who)
        except Exception as error:
            await send_refusal(send, as_refused(error, route.name))
            return
        await self._send(response, receive, send)

    async def _send(
        self,
        response: bytes | FollowedSession | StreamedOperation | InboxFeed | CallPages,
        receive: Receive,
        send: Send,
    ) -> None:
        if isinstance(response, bytes):
            await send_json(send, self._route.status, response)
        elif isinstance(response, CallPages):
            await response.send(receive, send)
        elif isinstance(response, StreamedOperation):
            await stream_operation(self._runtime, self._connections, response, receive, send)
        elif isinstance(response, InboxFeed):
            await stream_inbox(self._connections, response, receive, send)
        else:
            await stream_events(self._connections, response, receive, send)

    async def _follow(
        self, params: dict[str, Any], headers: Headers, who: Principal
    ) -> FollowedSession:
        who.check(self._route.operation.roles, self._route.name)
        if (last := header_text(headers, b"last-event-id")) is not None:
            # A browser that reconnects sends it with the URL that it started with.
            params["after"] = _sequence_number(last)
        typed = self._route.operation.read(params)
        service = self._runtime.service
        reader = await service.open_reader(typed.session_id, max(0, typed.after), who)
        return FollowedSession(self._runtime, typed.session_id, reader)

    async def _start_streamed(
        self, params: dict[str, Any], headers: Headers, who: Principal
    ) -> StreamedOperation:
        runtime, session_id = self._runtime, params["session_id"]
        last = header_text(headers, b"last-event-id")
        session = await runtime.ask("session.get", {"session_id": session_id}, who)
        after = session.last_seq if last is None else _sequence_number(last)
        reader = await runtime.service.open_reader(session_id, after, who)
        result = asyncio.ensure_future(runtime.ask(self._route.name, params, who))
        result.add_done_callback(_retrieve_exception)
        return StreamedOperation(self._route.name, session_id, after, reader, result)


def _sequence_number(text: str) -> int:
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) > MAX_SEQ:
        raise Refused("invalid", "Last-Event-ID must be the id of an event: a whole number")
    return int(text)


def _retrieve_exception(result: asyncio.Future[Any]) -> None:
    """Keep asyncio from logging a refusal that the client left too early to read."""
    if not result.cancelled():
        result.exception()
