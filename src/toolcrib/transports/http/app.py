"""The ASGI application of a runtime: every route behind one authentication."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from toolcrib.errors import Refused
from toolcrib.serving.auth import AuthMiddleware
from toolcrib.serving.origins import AllowedOrigins
from toolcrib.serving.refusals import (
    HttpRefused,
    as_bytes,
    as_refused,
    refusal_json,
    send_json,
    status_of,
)
from toolcrib.transports.http.connections import Connections
from toolcrib.transports.http.endpoint import OperationEndpoint
from toolcrib.transports.http.mcp_mount import mcp_route
from toolcrib.transports.http.openapi import openapi_document
from toolcrib.transports.http.routes import ROUTES
from toolcrib.transports.http.websocket import WebSocketEndpoint

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.tokens import Tokens
    from toolcrib.transports.mcp.server import McpServer


def create_app(
    runtime: Runtime,
    *,
    tokens: Tokens,
    allowed_hosts: Iterable[str] | None = None,
    allowed_origins: Iterable[str] | None = None,
    connections: Connections | None = None,
    mcp: McpServer | None = None,
) -> Starlette:
    """An application that serves a runtime to the holders of `tokens`. Without `allowed_hosts` it
    answers to the loopback names only. The caller starts and closes the runtime. `mcp` answers at
    `/mcp`; without it, that is an `McpServer` with the defaults.
    """
    open_connections = connections or Connections()
    allowed = AllowedOrigins.of(allowed_hosts, allowed_origins)
    app = Starlette(
        routes=[*_routes(runtime, open_connections), mcp_route(runtime, mcp, open_connections)],
        middleware=[Middleware(AuthMiddleware, tokens=tokens, allowed=allowed)],
        exception_handlers={404: _no_route, 405: _no_method, Exception: _internal},
    )
    app.router.redirect_slashes = False
    return app


def _routes(runtime: Runtime, connections: Connections) -> Iterable[BaseRoute]:
    for route in ROUTES:
        endpoint = OperationEndpoint(runtime, route, connections)
        yield _route(route.path, endpoint, route.verb, route.name)
    yield _route("/openapi.json", OpenApiEndpoint(), "GET", "openapi")
    yield WebSocketRoute("/v1/ws", WebSocketEndpoint(runtime, connections), name="socket")


def _route(path: str, endpoint: Any, verb: str, name: str) -> Route:
    route = Route(path, endpoint, methods=[verb], name=name)
    # Starlette adds HEAD to GET, and a HEAD of an event stream would never end.
    route.methods = {verb}
    return route


class OpenApiEndpoint:
    """Serves the OpenAPI document. An ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await send_json(send, 200, as_bytes(openapi_document()))


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
