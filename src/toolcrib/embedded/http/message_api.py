"""ASGI middleware for requests of the Messages API: its credential and the form of its errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.database import new_id
from toolcrib.embedded.messages.service import error_of
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

VERSION: Final = b"anthropic-version"
_KEY: Final = b"x-api-key"
_PATH: Final = "/v1/messages"
_ERRORS: Final = 400


def is_message_api(scope: Scope) -> bool:
    """Whether a request is of the Messages API: by its path, or by a header of its clients."""
    if scope.get("path", "").startswith(_PATH):
        return True
    return any(name.lower() == VERSION for name, _ in scope.get("headers", ()))


class MessageApiMiddleware:
    """Reads `x-api-key` as the bearer token, and gives refusals of the server, which come before
    the provider sees a request, the form of the Messages API.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request."""
        if scope["type"] != "http" or not is_message_api(scope):
            await self._app(scope, receive, send)
            return
        await self._app(_with_bearer(scope), receive, _RefusalSender(send).send)


def _with_bearer(scope: Scope) -> Scope:
    headers = cast("list[tuple[bytes, bytes]]", list(scope["headers"]))
    if any(name.lower() == b"authorization" for name, _ in headers):
        return scope
    keys = [(b"authorization", b"Bearer " + value) for name, value in headers if name == _KEY]
    return {**scope, "headers": [*headers, *keys]}


class _RefusalSender:
    """Sends a response, of which it changes the body if that is an error in another form."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= _ERRORS:
            self._start = message
            return
        if self._start is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        start, self._start = self._start, None
        body, more = _error_body(start["status"], self._body)
        headers = [pair for pair in start["headers"] if pair[0].lower() != b"content-length"]
        headers += [(b"content-length", str(len(body)).encode()), *more]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _error_body(status: int, body: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    try:
        read: Any = json.loads(body)
    except ValueError:
        return body, []
    facts = cast(dict[str, Any], read) if isinstance(read, dict) else {}
    error: Any = facts.get("error")
    if facts.get("type") == "error" or not isinstance(error, dict):
        return body, []
    fault = ApiFault(status, str(cast(dict[str, Any], error).get("message", "")))
    request_id = new_id("req")
    changed = {"type": "error", "error": error_of(fault), "request_id": request_id}
    return json.dumps(changed).encode(), [(b"request-id", request_id.encode())]
