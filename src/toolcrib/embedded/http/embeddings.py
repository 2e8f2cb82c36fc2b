"""`/v1/embeddings`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from toolcrib.embedded.embeddings import EmbeddingRequest
from toolcrib.embedded.http.bodies import answered, read_object
from toolcrib.embedded.http.warning_header import warning_headers

if TYPE_CHECKING:
    from toolcrib.embedded.provider import EmbeddedProvider


class EmbeddingRoutes:
    """The route of embeddings."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes below `/v1`."""
        return [Route("/embeddings", answered(self._create), methods=["POST"])]

    async def _create(self, request: Request) -> Response:
        body = await read_object(request)
        answer = await self._provider.embeddings.create(body)
        known = {field.name for field in fields(EmbeddingRequest)}
        headers = warning_headers(sorted(set(body) - known), answer.warnings)
        return JSONResponse(answer.resource, headers=headers)
