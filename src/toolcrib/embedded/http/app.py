"""The provider as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Mount, Route

from toolcrib.embedded.database import new_id
from toolcrib.embedded.http.chat import ChatRoutes
from toolcrib.embedded.http.containers import ContainerRoutes
from toolcrib.embedded.http.conversations import ConversationRoutes
from toolcrib.embedded.http.embeddings import EmbeddingRoutes
from toolcrib.embedded.http.files import FileRoutes
from toolcrib.embedded.http.message_api import is_message_api
from toolcrib.embedded.http.messages import MessageRoutes, error_response
from toolcrib.embedded.http.responses import ResponseRoutes
from toolcrib.embedded.http.uploads import UploadRoutes
from toolcrib.embedded.http.vector_stores import VectorStoreRoutes
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.provider import EmbeddedProvider


def create_provider_app(provider: EmbeddedProvider) -> Starlette:
    """All routes of a provider, without authentication: the server adds it."""
    # The Messages API comes first: it shares paths and takes only the requests that name it.
    parts = (
        MessageRoutes,
        ResponseRoutes,
        ChatRoutes,
        ConversationRoutes,
        EmbeddingRoutes,
        FileRoutes,
        UploadRoutes,
        ContainerRoutes,
        VectorStoreRoutes,
    )
    routes = [route for part in parts for route in part(provider).routes]
    app = Starlette(
        routes=[Mount("/v1", routes=routes), Route("/openapi.json", _document)],
        exception_handlers={404: _nothing, 405: _other_method},
    )
    app.router.redirect_slashes = False
    return app


async def _document(request: Request) -> Response:
    from toolcrib.embedded.http.openapi import provider_document

    return JSONResponse(provider_document())


async def _other_method(request: Request, error: Exception) -> Response:
    """Name the methods that the path has, whichever routes have them."""
    [mount] = [route for route in request.app.routes if isinstance(route, Mount)]
    routes = [route for route in mount.routes if isinstance(route, Route)]
    scope = {**request.scope, "type": "http"}
    path = next((r.path for r in routes if r.matches(scope)[0] is not Match.NONE), None)
    methods = {method for r in routes if r.path == path for method in r.methods or ()}
    message = f"{request.method} is not allowed at this path of the embedded provider."
    fault = ApiFault(405, message, code="unknown_method")
    headers = {"allow": ", ".join(sorted(methods))}
    if is_message_api(request.scope):
        return error_response(fault, new_id("req"), headers)
    return JSONResponse(fault.body, status_code=405, headers=headers)


async def _nothing(request: Request, error: Exception) -> Response:
    message = f"There is nothing for {request.method} at this path of the embedded provider."
    fault = ApiFault(404, message, code="unknown_url")
    if is_message_api(request.scope):
        return error_response(fault, new_id("req"))
    return JSONResponse(fault.body, status_code=404)
