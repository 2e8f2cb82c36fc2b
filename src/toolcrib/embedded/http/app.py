"""The provider as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount

from toolcrib.embedded.http.chat import ChatRoutes
from toolcrib.embedded.http.containers import ContainerRoutes
from toolcrib.embedded.http.conversations import ConversationRoutes
from toolcrib.embedded.http.embeddings import EmbeddingRoutes
from toolcrib.embedded.http.files import FileRoutes
from toolcrib.embedded.http.responses import ResponseRoutes
from toolcrib.embedded.http.uploads import UploadRoutes
from toolcrib.embedded.http.vector_stores import VectorStoreRoutes
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.provider import EmbeddedProvider


def create_provider_app(provider: EmbeddedProvider) -> Starlette:
    """All routes of a provider, without authentication: the server adds it."""
    parts = (
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
        routes=[Mount("/v1", routes=routes)],
        exception_handlers={404: _nothing, 405: _nothing},
    )
    app.router.redirect_slashes = False
    return app


async def _nothing(request: Request, error: Exception) -> Response:
    message = f"There is nothing for {request.method} at this path of the embedded provider."
    return JSONResponse(ApiFault(404, message, code="unknown_url").body, status_code=404)
