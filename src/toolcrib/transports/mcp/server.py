"""A runtime as an MCP server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import ReadResourceRequestParams, SetLevelRequestParams
from pydantic import BaseModel

from toolcrib.runtime.principal import Principal
from toolcrib.transports.mcp.client_sessions import ClientSessions
from toolcrib.transports.mcp.elicitation import ElicitedApprovals
from toolcrib.transports.mcp.errors import without_details
from toolcrib.transports.mcp.notifications import Notifications, set_level
from toolcrib.transports.mcp.options import McpOptions
from toolcrib.transports.mcp.results import ArtifactReader, no_resources
from toolcrib.transports.mcp.tool_calls import ToolCallHandler
from toolcrib.transports.mcp.tool_list import ToolListHandler

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp.server.subscriptions import ServerEvent

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.endpoint import McpEndpoint
    from toolcrib.transports.pipes import Pipes

P = TypeVar("P", bound=BaseModel)

LOCAL: Final = Principal("local", frozenset({"read", "call"}), "mcp")
"""Whoever starts the process and talks to it on stdio. They may call, and not approve."""
STATE_SECONDS: Final = 86_400.0
"""How long a form may lie with a client. After that the call still waits, and is asked anew."""


class McpServer:
    """Serves the tools of a runtime to MCP clients, of the handshake protocol (up to 2025-11-25)
    and of the stateless one (2026-07-28).

    Every call goes through the runtime: validated, gated, recorded. `sdk` is the server of the
    official SDK, for whatever else it can be told.
    """

    def __init__(
        self, runtime: Runtime, options: McpOptions | None = None, *, who: Principal = LOCAL
    ) -> None:
        self.runtime = runtime
        self.options = options = options or McpOptions()
        self._seats = ClientSessions(runtime, who, options.session)
        self._telling = Notifications()
        self._listing = ToolListHandler(runtime, self._seats, self._telling)
        self._artifacts = ArtifactReader(runtime, self._seats)
        self._endpoint: McpEndpoint | None = None
        approving = ElicitedApprovals(runtime, options.approve_by_elicitation)
        self.sdk: Server[Any] = _Sdk(
            options.name,
            version=options.version,
            title=options.title,
            instructions=options.instructions,
            cache_hints={"tools/list": CacheHint(options.list_ttl_ms, "private")},
            lifespan=self._lifespan,
            get_tool_input_schema=self._listing.input_schema,
            on_list_tools=cast("Any", self._listing),
            on_call_tool=cast(
                "Any", ToolCallHandler(runtime, self._seats, self._listing, approving)
            ),
            on_list_resources=no_resources,
            on_read_resource=cast("Any", self._artifacts),
            on_subscriptions_listen=self._telling.listen,
        )
        # The SDK warns of the parameter for it: the stateless protocol has no such method.
        self.sdk.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
        sealed = RequestStateBoundary(self._state_security(), default_audience=options.name)
        self.sdk.middleware += [sealed, without_details]

    def add_request_handler(
        self,
        method: str,
        params_type: type[P],
        handler: Callable[[ServerRequestContext[Any, Any], P], Awaitable[HandlerResult]],
    ) -> None:
        """Answer a method of the protocol with the SDK's own types: resources, prompts,
        completions. What the method makes possible is told to clients.
        """
        if method == "resources/read":
            self._artifacts.others = cast("Any", handler)
            params_type = cast("type[P]", ReadResourceRequestParams)
            handler = cast("Any", self._artifacts)
        self.sdk.add_request_handler(method, params_type, handler)

    async def publish(self, event: ServerEvent) -> None:
        """Tell clients that a list, or a resource, is not what it was."""
        await self._telling.publish(event)

    async def serve_stdio(self, pipes: Pipes | None = None) -> None:
        """Start the runtime and serve one client on stdin and stdout until it leaves or the process
        is asked to stop, then close the runtime. `pipes` come from `claim_pipes`.
        """
        from toolcrib.transports.mcp.stdio import serve_stdio
        from toolcrib.transports.pipes import claim_pipes

        await serve_stdio(self, pipes or claim_pipes())

    @property
    def endpoint(self) -> McpEndpoint:
        """Streamable HTTP as an ASGI application without authentication: `create_app` serves it at
        `/mcp`, behind the authentication of the runtime.
        """
        from toolcrib.transports.mcp.endpoint import McpEndpoint

        if self._endpoint is None:
            self._endpoint = McpEndpoint(self)
        return self._endpoint

    async def close(self) -> None:
        """End Streamable HTTP. `HttpServer` does so; an application on another server has to."""
        if self._endpoint is not None:
            await self._endpoint.close(self.runtime.config.drain_seconds)

    def end_listening(self) -> None:
        """Let every `subscriptions/listen` end as it should."""
        self._telling.listen.close()

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
        with self._listing.following():
            yield {}

    def _state_security(self) -> RequestStateSecurity:
        keys = self.options.request_state_keys
        if not keys:
            security = RequestStateSecurity.ephemeral(ttl=STATE_SECONDS)
        else:
            security = RequestStateSecurity(keys=keys, ttl=STATE_SECONDS)
        security.bind_principal = lambda ctx: self._seats.who_asks(ctx).name
        return security


class _Sdk(Server[Any]):
    """The SDK's server, which says that it tells of changed lists however it is run."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        told = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(told, experimental_capabilities, extensions)
