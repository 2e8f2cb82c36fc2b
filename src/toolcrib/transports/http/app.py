"""The ASGI application: every route behind one gate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from toolcrib.errors import Refused
from toolcrib.serving.auth import Gate
from toolcrib.serving.origins import doors
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
from toolcrib.transports.http.routes import ROUTES, OperationRoute
from toolcrib.transports.http.shortcut import Shortcut
from toolcrib.transports.http.websocket import SocketEndpoint

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
    """An application that serves a runtime to whoever holds a token. Without `allowed_hosts` it
    answers to the names of loopback only. The runtime is started and closed by whoever made it.
    `mcp` is what answers at `/mcp`, for who wants more of it than the defaults.
    """
    served = connections or Connections()
    operations = [(each, OperationEndpoint(runtime, each, served)) for each in ROUTES]
    at_mcp = mcp_route(runtime, mcp, served)
    shortcuts = [(at.verb, at.path, app) for at, app in operations]
    app = Starlette(
        routes=[*_routes(runtime, operations, served), at_mcp],
        middleware=[
            Middleware(Gate, tokens=tokens, doors=doors(allowed_hosts, allowed_origins)),
            Middleware(Shortcut, routes=[*shortcuts, ("POST", at_mcp.path, at_mcp.app)]),
        ],
        exception_handlers={404: _no_route, 405: _no_verb, Exception: _internal},
    )
    app.router.redirect_slashes = False
    return app


def _routes(
    runtime: Runtime,
    operations: Iterable[tuple[OperationRoute, OperationEndpoint]],
    connections: Connections,
) -> Iterable[BaseRoute]:
    for at, endpoint in operations:
        yield _route(at.path, endpoint, at.verb, at.name)
    yield _route("/openapi.json", OpenApiEndpoint(), "GET", "openapi")
    yield WebSocketRoute("/v1/ws", SocketEndpoint(runtime, connections), name="socket")


def _route(path: str, endpoint: Any, verb: str, name: str) -> Route:
    route = Route(path, endpoint, methods=[verb], name=name)
    # A HEAD of a stream would never end.
    route.methods = {verb}
    return route


class OpenApiEndpoint:
    """Gives the OpenAPI document. An ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await send_json(send, 200, as_bytes(openapi_document()))


def _no_route(request: Request, error: Exception) -> Response:
    return _refusal(Refused("not_found", "there is nothing at this path; see /openapi.json"))


def _no_verb(request: Request, error: Exception) -> Response:
    refused = HttpRefused(405, "not_found", f"{request.method} is not taken at this path")
    response = _refusal(refused)
    response.headers["Allow"] = ", ".join(sorted(_verbs_at(request)))
    return response


def _verbs_at(request: Request) -> set[str]:
    path = request.scope["path"]
    routes = [each for each in request.app.routes if isinstance(each, Route)]
    return {verb for each in routes if each.path_regex.match(path) for verb in each.methods or ()}


def _internal(request: Request, error: Exception) -> Response:
    return _refusal(as_refused(error, "the request"))


def _refusal(refused: Refused) -> Response:
    body = as_bytes(refusal_json(refused))
    return Response(body, status_code=status_of(refused), media_type="application/json")
