"""The ASGI application of a runtime: every route behind one authentication.

`/mcp` is the MCP endpoint; the WebSocket endpoint takes JSON-RPC in text frames, as on stdio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Unpack

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from toolcrib.clock import SYSTEM_CLOCK
from toolcrib.errors import Refused
from toolcrib.logs import redact_logs
from toolcrib.serving.access import Access, AccessOptions, create_access
from toolcrib.serving.auth import SUBPROTOCOL, PublicPage, headers_of, principal_of
from toolcrib.serving.connections import CUT
from toolcrib.serving.health import HealthMiddleware, Readiness
from toolcrib.serving.login import LoginFailures
from toolcrib.serving.refusals import (
    HttpRefused,
    as_bytes,
    as_refused,
    refusal_json,
    send_refusal,
    status_of,
)
from toolcrib.serving.replica_streams import ReplicaStreams, credential_of
from toolcrib.serving.request_log import ServerWatch
from toolcrib.store.shared_store import is_shared
from toolcrib.transports.http.accounts.accounts import ISSUER_PATH, Accounts
from toolcrib.transports.http.accounts.issuer_visit import (
    CALLBACK_PATH,
    IssuerReturn,
    IssuerVisit,
)
from toolcrib.transports.http.accounts.routes import ACCOUNT_ROUTES, OPEN_ROUTES, AccountEndpoint
from toolcrib.transports.http.connections import Connections
from toolcrib.transports.http.console import PAGE_PATHS, ConsolePage, NoConsole
from toolcrib.transports.http.downloads import DOWNLOAD_ROUTES
from toolcrib.transports.http.endpoint import OperationEndpoint
from toolcrib.transports.http.frontends.endpoints import Frontends
from toolcrib.transports.http.frontends.routes import FRONTEND_ROUTES
from toolcrib.transports.http.openapi import openapi_document
from toolcrib.transports.http.replica_events import REPLICA_EVENT_ROUTES, replica_event_route
from toolcrib.transports.http.routes import ROUTES
from toolcrib.transports.http.server_sign_in import OPEN_SIGN_IN_ROUTES, ServerSignIn
from toolcrib.transports.peer import Peer

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.replica_credential import ReplicaCredential
    from toolcrib.transports.mcp.endpoint import McpEndpoint
    from toolcrib.transports.mcp.server import McpServer


_PATH: Final = "/mcp"
_VERBS: Final[tuple[str, ...]] = ("GET", "POST", "DELETE")


def mcp_route(runtime: Runtime, server: McpServer | None, connections: Connections) -> Route:
    """The route of MCP. Without `server`, an `McpServer` with the defaults answers."""
    mounted = MountedMcp(runtime, server, connections)
    route = Route(_PATH, mounted, methods=[*_VERBS], name="mcp")
    # Starlette adds HEAD to GET, and a HEAD of an event stream would never end.
    route.methods = {*_VERBS}
    return route


class MountedMcp:
    """Imports the MCP SDK with the first request: a server of REST alone does not need it. An ASGI
    application.
    """

    def __init__(
        self, runtime: Runtime, server: McpServer | None, connections: Connections
    ) -> None:
        self._runtime = runtime
        self._server = server
        self._connections = connections
        self._endpoint: McpEndpoint | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._endpoint is None:
            if find_spec("mcp") is None:
                text = "MCP is not installed on the server; its owner adds the extra mcp"
                await send_refusal(send, Refused("unavailable", text))
                return
            self._endpoint = self._create_endpoint()
        await self._endpoint(scope, receive, send)

    def _create_endpoint(self) -> McpEndpoint:
        from toolcrib.transports.mcp.server import McpServer

        endpoint = (self._server or McpServer(self._runtime)).endpoint
        # The loggers of the SDK are there now.
        redact_logs()
        endpoint.keeps_tasks = self._connections.keeps_tasks
        self._connections.on_close(endpoint.close)
        return endpoint


UNSUPPORTED: Final = 1003


class WebSocketEndpoint:
    """Serves one client per WebSocket. Its calls and prompts continue when it disconnects; it
    reconnects and subscribes after the last event it has. An ASGI application.
    """

    def __init__(self, runtime: Runtime, connections: Connections) -> None:
        self._runtime = runtime
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await receive()
        await send({"type": "websocket.accept", "subprotocol": _subprotocol(scope)})
        cut: Callable[[str], None] | None = scope.get(CUT)
        peer = Peer(
            self._runtime,
            principal_of(scope),
            unsent=self._connections.unsent,
            on_overflow=None if cut is None else partial(cut, "it has too much to read"),
        )
        sending = asyncio.ensure_future(_send_frames(peer, send))
        with self._connections.open_peer(peer):
            code = await _receive_frames(peer, receive)
            peer.close()
        await sending
        if code is not None:
            await send({"type": "websocket.close", "code": code})


def _subprotocol(scope: Scope) -> str | None:
    offered = headers_of(scope).get(b"sec-websocket-protocol", b"").split(b",")
    return SUBPROTOCOL if SUBPROTOCOL.encode() in [name.strip() for name in offered] else None


async def _receive_frames(peer: Peer, receive: Receive) -> int | None:
    """Receive frames until the client disconnects; returns the code to close with, if any."""
    while True:
        message: Any = await receive()
        if message["type"] == "websocket.disconnect":
            return None
        text: str | None = message.get("text")
        if text is None:
            return UNSUPPORTED
        await peer.receive(text)


async def _send_frames(peer: Peer, send: Send) -> None:
    try:
        async for frame in peer.frames():
            await send({"type": "websocket.send", "text": frame})
    except OSError:
        # The client has disconnected: producers that wait for room must not wait on.
        peer.abandon()


def create_app(
    runtime: Runtime,
    *,
    connections: Connections | None = None,
    mcp: McpServer | None = None,
    console: bool = True,
    **access_options: Unpack[AccessOptions],
) -> Starlette:
    """An application that serves a runtime to those whom the access options admit. Without
    `allowed_hosts` it answers to the loopback names only. The caller starts and closes the runtime.
    `mcp` answers at `/mcp`; without it, that is an `McpServer` with the defaults. With `console`,
    browsers get the console at `/`.
    """
    access = create_access(None, access_options)
    return create_routes(runtime, access, connections or Connections(), mcp, console=console)


def create_routes(
    runtime: Runtime,
    access: Access,
    connections: Connections,
    mcp: McpServer | None,
    watch: ServerWatch | None = None,
    *,
    console: bool = True,
    credential: ReplicaCredential | None = None,
) -> Starlette:
    """Every route of a runtime, behind one authentication, and the health checks before it. With
    `credential`, other replicas forward operations to it.
    """
    watch = watch or ServerWatch(Readiness(lambda: runtime.is_ready, runtime.store))
    # They are tried in this order, and calls are most of the requests: by REST, then by MCP.
    calls, *others = _routes(runtime, connections)
    failures = LoginFailures(on_failure=watch.on_login_failure)
    routes = [
        calls,
        mcp_route(runtime, mcp, connections),
        *others,
        *_account_routes(runtime, access, failures),
        *_server_sign_in_routes(runtime, access),
        *_replica_routes(runtime, connections, failures),
        *watch.routes(runtime),
    ]
    open_routes = {*OPEN_ROUTES, *OPEN_SIGN_IN_ROUTES, *REPLICA_EVENT_ROUTES}
    if credential is not None:
        from toolcrib.transports.http.replica_link import replica_endpoints

        for path, endpoint in replica_endpoints(runtime, credential, failures).items():
            routes.append(
                _route(path, endpoint, "POST", path.removeprefix("/v1/").replace("/", "."))
            )
            open_routes.add(("POST", path))
    app = Starlette(
        routes=routes,
        middleware=[
            *watch.middleware(routes, (*PUBLIC_PAGES, "/", *PAGE_PATHS)),
            Middleware(HealthMiddleware, is_ready=watch.readiness.check),
            Middleware(
                access.protect,
                public_pages=PUBLIC_PAGES,
                public_site=ConsolePage() if console else NoConsole(),
                open_routes=open_routes,
                takes_cookies=True,
                failures=failures,
            ),
        ],
        exception_handlers={404: _no_route, 405: _no_method, Exception: _internal},
    )
    app.router.redirect_slashes = False
    return app


def _routes(runtime: Runtime, connections: Connections) -> Iterable[BaseRoute]:
    for route in ROUTES:
        endpoint = OperationEndpoint(runtime, route, connections)
        yield _route(route.path, endpoint, route.verb, route.name)
    for download in DOWNLOAD_ROUTES:
        yield _route(download.path, download.endpoint(runtime), "GET", download.name)
    frontends = Frontends(runtime, connections)
    for frontend in FRONTEND_ROUTES:
        yield _route(frontend.path, frontend.endpoint(frontends), frontend.verb, frontend.name)
    yield WebSocketRoute("/v1/ws", WebSocketEndpoint(runtime, connections), name="socket")


def _replica_routes(
    runtime: Runtime, connections: Connections, failures: LoginFailures
) -> Iterable[BaseRoute]:
    """What other replicas of a shared store ask for, and how they are asked."""
    if is_shared(runtime.store) and (credential := credential_of(runtime.store)) is not None:
        runtime.reach_replicas(ReplicaStreams(credential))
        yield replica_event_route(runtime, connections, credential, failures)


def _account_routes(
    runtime: Runtime, access: Access, failures: LoginFailures
) -> Iterable[BaseRoute]:
    accounts = Accounts(access, runtime.store, SYSTEM_CLOCK)
    for route in ACCOUNT_ROUTES:
        endpoint = AccountEndpoint(accounts, route, failures)
        yield _route(route.path, endpoint, route.verb, route.name)
    yield _route(ISSUER_PATH, IssuerVisit(accounts, failures), "GET", "account.issuer")
    yield _route(CALLBACK_PATH, IssuerReturn(accounts, failures), "GET", "account.callback")


def _server_sign_in_routes(runtime: Runtime, access: Access) -> Iterable[BaseRoute]:
    if access.browsers.public_url is not None:
        runtime.gateway.serve_at(access.browsers.public_url)
    if access.oidc is not None:
        access.oidc.on_login = lambda login, token: runtime.gateway.note_caller_token(
            login.principal.name, token.decode("ascii"), login.expires_at
        )
    for path, endpoint in ServerSignIn(runtime, access).endpoints().items():
        name = path.removeprefix("/v1/").replace("/", ".")
        yield _route(path, endpoint, "GET", name)


def _route(path: str, endpoint: Any, verb: str, name: str) -> Route:
    route = Route(path, endpoint, methods=[verb], name=name)
    # Starlette adds HEAD to GET, and a HEAD of an event stream would never end.
    route.methods = {verb}
    return route


PUBLIC_PAGES: Final = {
    "/openapi.json": PublicPage("application/json", lambda: as_bytes(openapi_document())),
}
"""What anybody without a token gets, besides the console. It says nothing about this server."""


def _no_route(request: Request, error: Exception) -> Response:
    return _refusal(Refused("not_found", "there is nothing at this path; see /openapi.json"))


def _no_method(request: Request, error: Exception) -> Response:
    refused = HttpRefused(405, "not_found", f"{request.method} is not allowed at this path")
    response = _refusal(refused)
    response.headers["Allow"] = ", ".join(sorted(_methods_at(request)))
    return response


def _methods_at(request: Request) -> set[str]:
    path = request.scope["path"]
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    at_path = [route for route in routes if route.path_regex.match(path)]
    return {method for route in at_path for method in route.methods or ()}


def _internal(request: Request, error: Exception) -> Response:
    return _refusal(as_refused(error, "the request"))


def _refusal(refused: Refused) -> Response:
    body = as_bytes(refusal_json(refused))
    return Response(body, status_code=status_of(refused), media_type="application/json")
