"""Authentication of HTTP requests and WebSockets: `Host`, `Origin` and bearer credential. Streams
that stay open end when the login does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from starlette.middleware.cors import CORSMiddleware

from toolcrib.errors import Refused
from toolcrib.serving.cookies import BrowserRequests
from toolcrib.serving.login import LoginFailed, LoginFailures
from toolcrib.serving.oidc import MCP_PATH, ProtectedResource
from toolcrib.serving.origins import TrustedProxies
from toolcrib.serving.refusals import HttpRefused, as_bytes, send_bytes, send_json, send_refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolcrib.runtime.principal import Principal
    from toolcrib.serving.login import Authenticator, Login
    from toolcrib.serving.origins import AllowedOrigins
    from toolcrib.serving.sign_ins import SignIns


_log = logging.getLogger(__name__)

Headers: TypeAlias = "Mapping[bytes, bytes]"

SUBPROTOCOL: Final = "toolcrib.v1"
"""The WebSocket subprotocol of the runtime."""

_SINGLE_HEADERS: Final = frozenset(
    (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"idempotency-key")
)
_READING_METHODS: Final = ("GET", "HEAD")
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
    "x-request-id",
)
_STREAM_PATHS: Final = (MCP_PATH, "/v1/ui-stream", "/v1/ag-ui")
"""Where clients need not say that they accept events: `*/*` will do."""
PRINCIPAL: Final = "toolcrib.principal"
"""Where the scope of an authenticated request has its principal."""
CONSOLE: Final = "console"
"""The transport of whoever signed in with a browser."""
_LOGIN: Final = "toolcrib.login"
_COOKIE_PATHS: Final = "/v1/"
"""Where a browser may use its sign-in. Pages of other protocols send tokens."""
_HEADERS: Final = "toolcrib.headers"
_TOKEN_PROTOCOL: Final = b"toolcrib.bearer."
_MAX_CHECKED: Final = 256
_PAGE_SCHEMES: Final = {"ws": "http", "wss": "https"}
_SOCKET_SCHEMES: Final = {"http": "ws", "https": "wss"}
_UNAVAILABLE_SECONDS: Final = 10
_NO_TOKEN: Final = Refused(
    "unauthorized", "a valid token is required: send `Authorization: Bearer TOKEN`"
)
NO_PROXIES: Final = TrustedProxies()
CHECK_SECONDS: Final = 1.0
"""How often the logins of open streams are checked."""
POLICY_VIOLATION: Final = 1008
_DISCONNECT: Final = {"type": "http.disconnect"}


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
    accepted = headers.get(b"accept")
    return accepted is not None and b"text/event-stream" in accepted.lower()


@dataclass(frozen=True, slots=True)
class PublicPage:
    """A page without secrets. Its body is made when it is first asked for."""

    content_type: str
    body: Callable[[], bytes]


class PublicSite(Protocol):
    """An ASGI application for pages without secrets, whose paths are more than a list."""

    def covers(self, path: str) -> bool:
        """Whether a path is the site's."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a GET or a HEAD of a path that it covers."""
        ...


class LoginStreams:
    """Runs requests that may stay open: WebSockets and event streams. When a token is revoked or
    expires, they end within about a second; what they have started continues, as it does when a
    client disconnects.
    """

    def __init__(self, is_valid: Callable[[Login], bool]) -> None:
        self._is_valid = is_valid
        self._open: set[_HttpStream | _WebSocket] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closings: set[asyncio.Task[None]] = set()

    async def run(
        self, app: ASGIApp, login: Login, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Run the application until it is done or the login ends."""
        kind = _WebSocket if scope["type"] == "websocket" else _HttpStream
        stream = kind(login, receive, send)
        self._open.add(stream)
        self._schedule()
        try:
            await app(scope, stream.receive, stream.send)
            await stream.complete()
        finally:
            self._open.discard(stream)

    def check(self) -> None:
        """End the streams whose login no longer holds."""
        for stream in [each for each in self._open if not self._is_valid(each.login)]:
            self._open.discard(stream)
            _log.info("%s is no longer valid; an open stream of it ends", stream.login.credential)
            task = asyncio.ensure_future(stream.end())
            self._closings.add(task)
            task.add_done_callback(self._closings.discard)

    def _schedule(self) -> None:
        if self._timer is None and self._open:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.check()
        self._schedule()


class _HttpStream:
    def __init__(self, login: Login, receive: Receive, send: Send) -> None:
        self.login = login
        self._receive, self._send = receive, send
        self._is_body_read = False
        self._is_answering = False
        self._is_ended = False
        self._receivers = set[asyncio.Task[Any]]()

    async def receive(self) -> Any:
        """The next message; a disconnect once the login has ended."""
        if not self._is_body_read:
            message = await self._receive()
            self._is_body_read = not message.get("more_body", False)
            return message
        if self._is_ended:
            return _DISCONNECT
        task = asyncio.current_task()
        assert task is not None, "a request is answered in a task"
        self._receivers.add(task)
        try:
            return await self._receive()
        except asyncio.CancelledError:
            # The same way out as `asyncio.timeout`: only what `end` has cancelled is undone.
            if not self._is_ended or task.uncancel() > 0:
                raise
            return _DISCONNECT
        finally:
            self._receivers.discard(task)
            # A task that is cancelled here keeps this frame: without a way back, both go at once
            # and are not left to the garbage collector.
            del task

    async def send(self, message: Any) -> None:
        """Send, and note whether the answer is complete."""
        is_body = message["type"] == "http.response.body"
        self._is_answering = not is_body or bool(message.get("more_body", False))
        await self._send(message)

    async def end(self) -> None:
        """The login has ended."""
        self._is_ended = True
        for task in self._receivers:
            task.cancel()

    async def complete(self) -> None:
        """Finish an answer that was broken off because the login has ended."""
        if self._is_ended and self._is_answering:
            await self._send({"type": "http.response.body", "body": b""})


class _WebSocket:
    def __init__(self, login: Login, receive: Receive, send: Send) -> None:
        self.login = login
        self.receive, self._send = receive, send
        self._is_ended = False

    async def send(self, message: Any) -> None:
        """Send. Raises `OSError` when the login has ended."""
        if self._is_ended:
            raise ConnectionError("the login of this WebSocket has ended")
        await self._send(message)

    async def end(self) -> None:
        """Close the socket; the server then reports a disconnect to the application."""
        self._is_ended = True
        reason = "the token is no longer valid"
        await self._send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason})

    async def complete(self) -> None:
        """Nothing is left to do."""


class AuthMiddleware:
    """ASGI middleware that passes on a request only from an allowed host and origin, with a valid
    credential. Preflight requests of allowed origins, and requests for the metadata of the
    protected resource, carry none and are answered here.

    `public_pages`, by their paths, and `public_site` are for everybody with an allowed host and
    origin; requests of `open_routes`, methods and paths, are passed on without a principal.

    With `sign_ins`, the cookie of a browser is a credential of HTTP requests to `/v1/` that have no
    other, sent by pages of this server.

    With `any_may_stream`, the application streams events also to a client that does not say in a
    header that it accepts them.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        allowed: AllowedOrigins,
        proxies: TrustedProxies = NO_PROXIES,
        resource: ProtectedResource | None = None,
        failures: LoginFailures | None = None,
        any_may_stream: bool = False,
        public_pages: Mapping[str, PublicPage] | None = None,
        public_site: PublicSite | None = None,
        open_routes: Collection[tuple[str, str]] = (),
        sign_ins: SignIns | None = None,
        browsers: BrowserRequests | None = None,
    ) -> None:
        self._app = app
        self._public_pages = public_pages or {}
        self._public_site = public_site
        self._open_routes = open_routes
        self._sign_ins = sign_ins
        self._browsers = browsers or BrowserRequests()
        self._any_may_stream = any_may_stream
        self._authenticator = authenticator
        self._allowed = allowed
        self._proxies = proxies
        self._resource = resource or ProtectedResource()
        self._failures = failures or LoginFailures()
        is_valid = authenticator.is_valid if sign_ins is None else sign_ins.is_valid
        self._streams = LoginStreams(is_valid)
        self._checked: set[tuple[bytes | None, bytes | None, str]] = set()
        """Host, origin and scheme of earlier requests that passed; clients repeat them."""
        self._next: ASGIApp = self._authenticate
        if allowed.origins:
            self._next = CORSMiddleware(
                self._authenticate,
                allow_origins=sorted(allowed.origins),
                allow_methods=_ALLOWED_METHODS,
                allow_headers=_ALLOWED_HEADERS,
                expose_headers=("mcp-session-id", "www-authenticate", "x-request-id"),
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request and pass it on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            headers = read_headers(scope["headers"])
            if self._proxies.networks:
                headers = self._believe_proxy(scope, headers)
            self._check_origin(scope, headers)
        except Refused as refused:
            await refuse(scope, send, refused)
            return
        scope[_HEADERS] = headers
        await self._next(scope, receive, send)

    async def _authenticate(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind, path = scope["type"], scope["path"]
        if kind == "http" and await self._send_public(path, scope, receive, send):
            return
        headers: Headers = scope[_HEADERS]
        credential = _credential(kind, headers)
        if credential is None and kind == "http" and (scope["method"], path) in self._open_routes:
            await self._app(scope, receive, send)
            return
        try:
            login = (
                self._sign_in(scope, headers)
                if credential is None
                else await self._authenticator.login(credential)
            )
        except Refused as refused:
            await refuse(scope, send, refused)
            return
        except LoginFailed as failure:
            await refuse_login(scope, send, failure, self._failures, self._resource)
            return
        if login is None:
            challenge = (b"www-authenticate", self._resource.challenge(path, None))
            await refuse(scope, send, _NO_TOKEN, (challenge,))
            return
        # The record tells the calls of a person at the console from those of programs.
        transport = kind if login.sign_in is None else CONSOLE
        scope[PRINCIPAL], scope[_LOGIN] = _over(login.principal, transport), login
        is_event_stream = path.startswith(_STREAM_PATHS) or accepts_events(headers)
        if kind == "websocket" or is_event_stream or self._any_may_stream:
            await self._streams.run(self._app, login, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _sign_in(self, scope: Scope, headers: Headers) -> Login | None:
        """The login of a browser; None for a request without a cookie. Raises `LoginFailed`, and
        `Refused` for a request of another page.
        """
        is_page = scope["type"] == "http" and scope["path"].startswith(_COOKIE_PATHS)
        if self._sign_ins is None or not is_page:
            return None
        secret = self._browsers.sign_in_cookie(scope, headers).value(headers)
        if secret is None:
            return None
        self._browsers.check(scope, headers, secret)
        return self._sign_ins.login(secret)

    async def _send_public(self, path: str, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a request that needs no credential, if this path is for everybody."""
        method, site = scope["method"], self._public_site
        if method not in _READING_METHODS:
            return False
        if site is not None and site.covers(path):
            await site(scope, receive, send)
            return True
        if method == "HEAD":
            return False
        page = self._public_pages.get(path)
        if page is not None:
            await send_bytes(send, 200, page.body(), page.content_type)
            return True
        metadata = self._resource.metadata(path)
        if metadata is not None:
            await send_json(send, 200, as_bytes(metadata))
        return metadata is not None

    def _believe_proxy(self, scope: Scope, headers: Headers) -> Headers:
        """Replace client, scheme and host by what a trusted proxy says about them."""
        client = scope.get("client")
        if client is None or not self._proxies.trusts(client[0]):
            return headers
        forwarded = self._proxies.forwarded(scope["headers"])
        if forwarded.client is not None:
            scope["client"] = (forwarded.client, 0)
        if forwarded.scheme is not None:
            is_page = scope["type"] == "http"
            scope["scheme"] = forwarded.scheme if is_page else _SOCKET_SCHEMES[forwarded.scheme]
        if forwarded.host is None:
            return headers
        return {**headers, b"host": forwarded.host.encode("latin-1")}

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        scheme: str = scope.get("scheme", "http")
        seen = headers.get(b"host"), headers.get(b"origin"), scheme
        if seen in self._checked:
            return
        host, origin = header_text(headers, b"host"), header_text(headers, b"origin")
        self._allowed.check(host, origin, scheme=_PAGE_SCHEMES.get(scheme, scheme))
        if len(self._checked) < _MAX_CHECKED:
            self._checked.add(seen)


@lru_cache(maxsize=1_024)
def _over(principal: Principal, transport: str) -> Principal:
    """The principal with the name of a transport, for the audit."""
    return replace(principal, transport=transport)


def peer_of(scope: Scope) -> str:
    """The address that a request comes from."""
    client = scope.get("client")
    return "unknown" if client is None else str(client[0])


def principal_of(scope: Scope) -> Principal:
    """The principal of an authenticated request."""
    return cast("Principal", scope[PRINCIPAL])


def login_of(scope: Scope) -> Login:
    """The login of an authenticated request."""
    return cast("Login", scope[_LOGIN])


def headers_of(scope: Scope) -> Headers:
    """The headers that the middleware has read."""
    return cast("Headers", scope[_HEADERS])


async def refuse(
    scope: Scope, send: Send, refused: Refused, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Refuse a request, or a WebSocket before it opens."""
    if scope["type"] == "http":
        await send_refusal(send, refused, headers)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await send_refusal(_websocket_send(send), refused, headers)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": refused.kind})


async def refuse_login(
    scope: Scope,
    send: Send,
    failure: LoginFailed,
    failures: LoginFailures,
    resource: ProtectedResource,
) -> None:
    """Refuse a request whose credential was not accepted, more slowly the more of them there are
    from its address.
    """
    retry_after = await failures.record(peer_of(scope), scope["type"], failure)
    refused, headers = failure.refused, list[tuple[bytes, bytes]]()
    if failure.fault not in ("no_role", "unavailable"):
        headers.append((b"www-authenticate", resource.challenge(scope["path"], failure)))
    if retry_after is not None:
        text = f"too many failed logins from your address; try again in {retry_after} s"
        refused = HttpRefused(429, "unauthorized", text)
    if retry_after is not None or failure.fault == "unavailable":
        seconds = retry_after or _UNAVAILABLE_SECONDS
        headers.append((b"retry-after", str(seconds).encode()))
    await refuse(scope, send, refused, headers)


def _websocket_send(send: Send) -> Send:
    async def send_to_websocket(message: Any) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return send_to_websocket


def _credential(kind: str, headers: Headers) -> bytes | None:
    scheme, _, secret = headers.get(b"authorization", b"").partition(b" ")
    if secret and scheme.lower() == b"bearer":
        return secret.strip()
    if kind != "websocket":
        return None
    # A page cannot set the headers of a WebSocket, and URLs end up in logs: the page names the
    # token as one of its subprotocols.
    protocols = [name.strip() for name in headers.get(b"sec-websocket-protocol", b"").split(b",")]
    tokens = [name for name in protocols if name.startswith(_TOKEN_PROTOCOL)]
    return tokens[0].removeprefix(_TOKEN_PROTOCOL) if len(tokens) == 1 else None
