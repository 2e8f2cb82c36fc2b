"""Who comes in: the name they ask for, the page they come from, the token they hold.

The headers of one request that this server looks at.

What a browser is told about pages of other origins that were allowed by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from toolcrib.errors import Refused
from toolcrib.serving.refusals import send_refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolcrib.runtime.principal import Principal
    from toolcrib.serving.origins import Doors
    from toolcrib.serving.tokens import Tokens


Headers: TypeAlias = "Mapping[bytes, bytes]"

_ONCE: Final = frozenset(
    (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"idempotency-key")
)


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers by name. One that decides something and comes twice is refused: a proxy may have
    looked at the other one.
    """
    found: dict[bytes, bytes] = {}
    for given, value in raw:
        # Some servers hand over the names of a socket's headers as the client wrote them.
        name = given.lower()
        if name in found and name in _ONCE:
            raise Refused("invalid", f"the header {name.decode('latin-1')} was given twice")
        found[name] = value
    return found


def text_of(headers: Headers, name: bytes) -> str | None:
    """A header as text."""
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def wants_stream(headers: Headers) -> bool:
    """Whether the client asks for events rather than for one JSON answer."""
    return b"text/event-stream" in headers.get(b"accept", b"").lower()


_ALLOWED: Final = (
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, idempotency-key, last-event-id, mcp-method, mcp-name, "
        b"mcp-protocol-version, mcp-session-id, toolcrib-session",
    ),
    (b"access-control-max-age", b"600"),
)


def is_preflight(scope: Scope, headers: Headers) -> bool:
    """Whether a browser asks before it sends what a page wants to send. It has no token yet."""
    return (
        scope["type"] == "http"
        and scope["method"] == "OPTIONS"
        and b"origin" in headers
        and b"access-control-request-method" in headers
    )


async def send_preflight(send: Send, origin: str | None) -> None:
    """Answer for an origin that was checked."""
    headers = [*_ALLOWED, *_named(origin)]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def allow(send: Send, origin: str | None) -> Send:
    """Let the page of an allowed origin read the response."""

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *_named(origin)]}
        await send(message)

    return sending


def _named(origin: str | None) -> list[tuple[bytes, bytes]]:
    name = (origin or "").encode("latin-1")
    return [
        (b"access-control-allow-origin", name),
        (b"access-control-expose-headers", b"mcp-session-id"),
        (b"vary", b"Origin"),
    ]


_PRINCIPAL: Final = "toolcrib.principal"
_HEADERS: Final = "toolcrib.headers"
SUBPROTOCOL: Final = "toolcrib.v1"
_SECRET_PROTOCOL: Final = b"toolcrib.bearer."
_MOST_LET_IN: Final = 256
_PAGE_SCHEMES: Final = {"ws": "http", "wss": "https"}


class Gate:
    """Stands before every route and the socket; nothing behind it is reached by a stranger."""

    def __init__(self, app: ASGIApp, *, tokens: Tokens, doors: Doors) -> None:
        self._app = app
        self._tokens = {kind: tokens.over(kind) for kind in ("http", "websocket")}
        self._doors = doors
        self._let_in: set[tuple[bytes | None, bytes | None, str]] = set()
        """Hosts and origins that were found right; clients send the same ones again and again."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            headers = read_headers(scope["headers"])
            origin = self._check_door(scope, headers)
            if is_preflight(scope, headers):
                await send_preflight(send, origin)
                return
            scope[_PRINCIPAL] = self._principal(scope, headers)
        except Refused as refused:
            await refuse(scope, send, refused)
            return
        scope[_HEADERS] = headers
        await self._app(
            scope, receive, allow(send, origin) if origin in self._doors.origins else send
        )

    def _check_door(self, scope: Scope, headers: Headers) -> str | None:
        origin = text_of(headers, b"origin")
        scheme: str = scope.get("scheme", "http")
        told = headers.get(b"host"), headers.get(b"origin"), scheme
        if told in self._let_in:
            return origin
        self._doors.check(
            text_of(headers, b"host"), origin, scheme=_PAGE_SCHEMES.get(scheme, scheme)
        )
        if len(self._let_in) < _MOST_LET_IN:
            self._let_in.add(told)
        return origin

    def _principal(self, scope: Scope, headers: Headers) -> Principal:
        secret = _secret(scope, headers)
        found = None if secret is None else self._tokens[scope["type"]].principal_of(secret)
        if found is None:
            raise Refused(
                "unauthorized", "a valid token is needed: send `Authorization: Bearer TOKEN`"
            )
        return found


def principal_of(scope: Scope) -> Principal:
    """Who the gate let in."""
    return cast("Principal", scope[_PRINCIPAL])


def headers_of(scope: Scope) -> Headers:
    """The headers that the gate has read."""
    return cast("Headers", scope[_HEADERS])


async def refuse(scope: Scope, send: Send, refused: Refused) -> None:
    """Refuse a request, or a socket before it opens."""
    if scope["type"] == "http":
        await send_refusal(send, refused)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await send_refusal(_for_socket(send), refused)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": refused.kind})


def _for_socket(send: Send) -> Send:
    async def sending(message: Any) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return sending


def _secret(scope: Scope, headers: Headers) -> bytes | None:
    scheme, _, secret = headers.get(b"authorization", b"").partition(b" ")
    if secret and scheme.lower() == b"bearer":
        return secret.strip()
    if scope["type"] != "websocket":
        return None
    # A page cannot set headers of a socket, and a URL is written into logs: it names a protocol.
    offered = headers.get(b"sec-websocket-protocol", b"").split(b",")
    named = [each.strip() for each in offered]
    found = [each for each in named if each.startswith(_SECRET_PROTOCOL)]
    return found[0].removeprefix(_SECRET_PROTOCOL) if len(found) == 1 else None
