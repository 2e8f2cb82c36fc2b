"""`resources/read`: artifacts of the client's own session, then what the runtime has, then what the
author of the server answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ReadResourceResult, TextResourceContents
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.store.store import ask_store
from toolcrib.transports.mcp.feature_reads import RESOURCE_NOT_FOUND
from toolcrib.transports.mcp.results import ARTIFACTS

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp_types import ReadResourceRequestParams

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.client_sessions import ClientSessions
    from toolcrib.transports.mcp.feature_lists import FeatureListHandler
    from toolcrib.transports.mcp.feature_reads import FeatureReadHandler

    ReadResource = Callable[
        ["ServerRequestContext[Any, Any]", ReadResourceRequestParams], Awaitable[HandlerResult]
    ]


class ArtifactReader:
    """Answers `resources/read`. URIs that the runtime does not know go to the handler in `others`,
    if there is one.
    """

    def __init__(
        self,
        runtime: Runtime,
        clients: ClientSessions,
        features: FeatureListHandler,
        reads: FeatureReadHandler,
    ) -> None:
        self._runtime = runtime
        self._clients = clients
        self._features = features
        self._reads = reads
        self.others: ReadResource | None = None

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams
    ) -> HandlerResult:
        """Answer one request."""
        if params.uri.startswith(ARTIFACTS):
            return await self._artifact(ctx, params.uri)
        if self.others is not None and not await self._features.knows(ctx, params.uri):
            return await self.others(ctx, params)
        return await self._reads.read(ctx, params)

    async def _artifact(self, ctx: ServerRequestContext[Any, Any], uri: str) -> HandlerResult:
        store, client = self._runtime.store, await self._clients.of(ctx)
        client.who.check(("caller", "auditor"), "resources/read")
        artifact_id = uri.removeprefix(ARTIFACTS)
        text = await ask_store(store, store.artifact, client.session_id, artifact_id)
        if text is None:
            is_stateless = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            code = INVALID_PARAMS if is_stateless else RESOURCE_NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": uri})
        contents = TextResourceContents(uri=uri, mime_type="text/plain", text=text)
        return ReadResourceResult(contents=[contents])
