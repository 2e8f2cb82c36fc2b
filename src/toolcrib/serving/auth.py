"""Authentication of HTTP requests and WebSockets: `Host`, `Origin` and bearer token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from starlette.middleware.cors import CORSMiddleware

from toolcrib.errors import Refused
from toolcrib.serving.refusals import send_refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolcrib.runtime.principal import Principal
    from toolcrib.serving.origins import AllowedOrigins
    from toolcrib.serving.tokens import Tokens


Headers: TypeAlias = "Mapping[bytes, bytes]"

SUBPROTOCOL: Final = "toolcrib.v1"
"""The WebSocket subprotocol of the runtime."""

_SINGLE_HEADERS: Final = frozenset(
    (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"idempotency-key")
)
_ALLOWED_METHODS: Final = ("GET", "POST", "DELETE")
_ALLOWED_HEADERS: Final = (
    "authorization",
    "content-type",
    "idempotency-key",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "toolcrib-session",
)
_PRINCIPAL: Final = "toolcrib.principal"
_HEADERS: Final = "toolcrib.headers"
_TOKEN_PROTOCOL: Final = b"toolcrib.bearer."
_MAX_CHECKED: Final = 256
_PAGE_SCHEMES: Final = {"ws": "http", "wss": "https"}


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers by lower-case name. Raises `Refused` (invalid) when a header that decides something
    comes twice: a proxy may have read the other one.
    """
    headers: dict[bytes, bytes] = {}
    for raw_name, value in raw:
        # Some servers pass on the header names of a WebSocket as the client wrote them.
        name = raw_name.lower()
        if name in headers and name in _SINGLE_HEADERS:
            raise Refused("invalid", f"duplicate header {name.decode('latin-1')}; send it once")
        headers[name] = value
    return headers


def header_text(headers: Headers, name: bytes) -> str | None:
    """A header as text."""
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def accepts_events(headers: Headers) -> bool:
    """Whether the client accepts server-sent events instead of one JSON document."""
    return b"text/event-stream" in headers.get(b"accept", b"").lower()


class AuthMiddleware:
    """ASGI middleware that passes on a request only from an allowed host and origin, with a valid
    token. Preflight requests of allowed origins carry no token and are answered here.
    """

    def __init__(self, app: ASGIApp, *, tokens: Tokens, allowed: AllowedOrigins) -> None:
        self._app = app
        self._tokens = {kind: tokens.over(kind) for kind in ("http", "websocket")}
        self._allowed = allowed
        self._checked: set[tuple[bytes | None, bytes | None, str]] = set()
        """Host, origin and scheme of earlier requests that passed; clients repeat them."""
        self._next: ASGIApp = self._authenticate
        if allowed.origins:
            self._next = CORSMiddleware(
                self._authenticate,
                allow_origins=sorted(allowed.origins),
                allow_methods=_ALLOWED_METHODS,
                allow_headers=_ALLOWED_HEADERS,
                expose_headers=("mcp-session-id",),
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request and pass it on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            headers = read_headers(scope["headers"])
            self._check_origin(scope, headers)
        except Refused as refused:
            await refuse(scope, send, refused)
            return
        scope[_HEADERS] = headers
        await self._next(scope, receive, send)

    async def _authenticate(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            scope[_PRINCIPAL] = self._principal(scope)
        except Refused as refused:
            await refuse(scope, send, refused)
            return
        await self._app(scope, receive, send)

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        scheme: str = scope.get("scheme", "http")
        seen = headers.get(b"host"), headers.get(b"origin"), scheme
        if seen in self._checked:
            return
        host, origin = header_text(headers, b"host"), header_text(headers, b"origin")
        self._allowed.check(host, origin, scheme=_PAGE_SCHEMES.get(scheme, scheme))
        if len(self._checked) < _MAX_CHECKED:
            self._checked.add(seen)

    def _principal(self, scope: Scope) -> Principal:
        secret = _secret(scope)
        principal = None if secret is None else self._tokens[scope["type"]].principal_of(secret)
        if principal is None:
            raise Refused(
                "unauthorized", "a valid token is required: send `Authorization: Bearer TOKEN`"
            )
        return principal


def principal_of(scope: Scope) -> Principal:
    """The principal of an authenticated request."""
    return cast("Principal", scope[_PRINCIPAL])


def headers_of(scope: Scope) -> Headers:
    """The headers that the middleware has read."""
    return cast("Headers", scope[_HEADERS])


async def refuse(scope: Scope, send: Send, refused: Refused) -> None:
    """Refuse a request, or a WebSocket before it opens."""
    if scope["type"] == "http":
        await send_refusal(send, refused)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await send_refusal(_websocket_send(send), refused)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": refused.kind})


def _websocket_send(send: Send) -> Send:
    async def send_to_websocket(message: Any) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return send_to_websocket


def _secret(scope: Scope) -> bytes | None:
    headers = headers_of(scope)
    scheme, _, secret = headers.get(b"authorization", b"").partition(b" ")
    if secret and scheme.lower() == b"bearer":
        return secret.strip()
    if scope["type"] != "websocket":
        return None
    # A page cannot set the headers of a WebSocket, and URLs end up in logs: the page names the
    # token as one of its subprotocols.
    protocols = [name.strip() for name in headers.get(b"sec-websocket-protocol", b"").split(b",")]
    tokens = [name for name in protocols if name.startswith(_TOKEN_PROTOCOL)]
    return tokens[0].removeprefix(_TOKEN_PROTOCOL) if len(tokens) == 1 else None
