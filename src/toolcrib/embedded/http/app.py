"""The provider as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount

from toolcrib.embedded.database import new_id
from toolcrib.embedded.http.containers import ContainerRoutes
from toolcrib.embedded.http.files import FileRoutes
from toolcrib.embedded.http.message_api import is_message_api
from toolcrib.embedded.http.messages import MessageRoutes, error_response
from toolcrib.embedded.http.responses import ResponseRoutes
from toolcrib.embedded.http.vector_stores import VectorStoreRoutes
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.provider import EmbeddedProvider


def create_provider_app(provider: EmbeddedProvider) -> Starlette:
    """All routes of a provider, without authentication: the server adds it."""
    # The Messages API comes first: it shares paths and takes only the requests that name it.
    parts = (MessageRoutes, ResponseRoutes, FileRoutes, ContainerRoutes, VectorStoreRoutes)
    routes = [route for part in parts for route in part(provider).routes]
    app = Starlette(
        routes=[Mount("/v1", routes=routes)],
        exception_handlers={404: _nothing, 405: _nothing},
    )
    app.router.redirect_slashes = False
    return app


async def _nothing(request: Request, error: Exception) -> Response:
    message = f"There is nothing for {request.method} at this path of the embedded provider."
    fault = ApiFault(404, message, code="unknown_url")
    if is_message_api(request.scope):
        return error_response(fault, new_id("req"))
    return JSONResponse(fault.body, status_code=404)
