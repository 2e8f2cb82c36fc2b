"""A runtime as an MCP server. Refusals become MCP errors, without details of their cause."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    ReadResourceRequestParams,
    SetLevelRequestParams,
)
from pydantic import BaseModel, ValidationError

from toolcrib.errors import UsageError
from toolcrib.runtime.principal import LOCAL_NAME, Principal
from toolcrib.serving.refusals import as_refused
from toolcrib.store.shared_store import is_shared
from toolcrib.transports.mcp.artifact_reader import ArtifactReader
from toolcrib.transports.mcp.client_sessions import ClientSessions
from toolcrib.transports.mcp.elicitation import ElicitedApprovals
from toolcrib.transports.mcp.feature_lists import FeatureListHandler
from toolcrib.transports.mcp.feature_reads import FeatureReadHandler
from toolcrib.transports.mcp.named_requests import name_requests
from toolcrib.transports.mcp.notifications import Notifications, set_level
from toolcrib.transports.mcp.options import McpOptions
from toolcrib.transports.mcp.tool_calls import ToolCallHandler
from toolcrib.transports.mcp.tool_list import ToolListHandler

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp.server.subscriptions import ServerEvent
    from mcp_types import ServerCapabilities

    from toolcrib.errors import RefusalKind, Refused
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.endpoint import McpEndpoint
    from toolcrib.transports.pipes import Pipes


# The JSON-RPC codes of the other kinds mean something else in MCP: they share a general code.
_CODES: Final[dict[RefusalKind, int]] = {
    "invalid": INVALID_PARAMS,
    "unavailable": INTERNAL_ERROR,
    "closing": INTERNAL_ERROR,
    "internal": INTERNAL_ERROR,
}


def as_error(refused: Refused) -> MCPError:
    """The MCP error for a refusal."""
    code = _CODES.get(refused.kind, INVALID_REQUEST)
    data = {"kind": refused.kind, "facts": dict(refused.facts)}
    return MCPError(code=code, message=refused.message, data=data)


async def hide_details(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware that turns refusals into errors, and withholds the text of unexpected exceptions,
    which the SDK would send to the client.
    """
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        raise as_error(as_refused(error, ctx.method)) from None


P = TypeVar("P", bound=BaseModel)

LOCAL: Final = Principal(LOCAL_NAME, frozenset({"caller"}), transport="mcp")
"""The client on stdio, which started the process. It may call, and not approve."""
_LISTS: Final[tuple[CacheableMethod, ...]] = (
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
)
_STATE_PURPOSE: Final = "mcp request state"
STATE_SECONDS: Final = 86_400.0
"""How long the state of a form is valid. After that the call still waits, with a new form."""


class McpServer:
    """Serves the tools of a runtime to MCP clients of the handshake protocol (up to 2025-11-25) and
    of the stateless protocol (2026-07-28).

    Every call goes through the runtime. `sdk` is the server of the official SDK, for further
    configuration.
    """

    def __init__(
        self, runtime: Runtime, options: McpOptions | None = None, *, who: Principal = LOCAL
    ) -> None:
        self.runtime = runtime
        self.options = options = options or McpOptions()
        self._clients = ClientSessions(runtime, who, options.session)
        self._notifications = Notifications()
        self._tool_lists = ToolListHandler(runtime, self._clients, self._notifications)
        self._features = FeatureListHandler(runtime, self._clients, self._notifications)
        self._endpoint: McpEndpoint | None = None
        approvals = ElicitedApprovals(runtime, options.approve_by_elicitation)
        reads = FeatureReadHandler(runtime, self._clients, self._tool_lists, approvals)
        self._artifacts = ArtifactReader(runtime, self._clients, self._features, reads)
        private = CacheHint(options.list_ttl_ms, "private")
        self.sdk: Server[Any] = _Sdk(
            self._features,
            options.name,
            version=options.version,
            title=options.title,
            instructions=options.instructions,
            cache_hints=dict.fromkeys(_LISTS, private),
            lifespan=self._lifespan,
            get_tool_input_schema=self._tool_lists.input_schema,
            on_list_tools=cast("Any", self._tool_lists),
            on_call_tool=cast(
                "Any", ToolCallHandler(runtime, self._clients, self._tool_lists, approvals)
            ),
            on_list_resources=cast("Any", self._features.resources),
            on_list_resource_templates=cast("Any", self._features.templates),
            on_read_resource=cast("Any", self._artifacts),
            on_subscribe_resource=self._features.subscribe,
            on_unsubscribe_resource=self._features.unsubscribe,
            on_list_prompts=cast("Any", self._features.prompts),
            on_get_prompt=cast("Any", reads.get),
            on_completion=cast("Any", self._features.complete),
            on_subscriptions_listen=self._features.listen,
        )
        # The SDK warns of the parameter for it: the stateless protocol has no such method.
        self.sdk.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
        sealed = RequestStateBoundary(self._state_security(), default_audience=options.name)
        self.sdk.middleware += [sealed, hide_details, name_requests]

    def add_request_handler(
        self,
        method: str,
        params_type: type[P],
        handler: Callable[[ServerRequestContext[Any, Any], P], Awaitable[HandlerResult]],
    ) -> None:
        """Answer a method of the protocol, with the types of the SDK: resources, prompts,
        completions. Clients see the capability that comes with the method. It takes the place of
        what the runtime answers; `resources/read` is for the URIs that nobody else knows.
        """
        self._features.added.add(method)
        if method == "resources/read":
            self._artifacts.others = cast("Any", handler)
            params_type = cast("type[P]", ReadResourceRequestParams)
            handler = cast("Any", self._artifacts)
        self.sdk.add_request_handler(method, params_type, handler)

    async def publish(self, event: ServerEvent) -> None:
        """Notify clients that a list or a resource has changed."""
        await self._notifications.publish(event)

    async def serve_stdio(self, pipes: Pipes | None = None) -> None:
        """Start the runtime and serve one client on stdin and stdout until it disconnects or the
        process gets a stop signal, then close the runtime. `pipes` come from `claim_pipes`.
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
        """End every `subscriptions/listen` with its result."""
        self._notifications.listen.close()

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
        with self._tool_lists.following(), self._features.following():
            yield {}

    def _state_security(self) -> RequestStateSecurity:
        keys, store = self.options.request_state_keys, self.runtime.store
        if not keys and is_shared(store):
            # A form that one replica shows may be answered to another. Without a key there is but
            # this process: `serve` refuses to start then.
            with suppress(UsageError):
                keys = tuple(key.hex() for key in store.derived_keys(_STATE_PURPOSE))
        if not keys:
            security = RequestStateSecurity.ephemeral(ttl=STATE_SECONDS)
        else:
            security = RequestStateSecurity(keys=keys, ttl=STATE_SECONDS)
        security.bind_principal = lambda ctx: self._clients.principal_of_request(ctx).name
        return security


class _Sdk(Server[Any]):
    """The server of the SDK, which always announces list-changed notifications, and completions
    and subscriptions only where there is something to complete or to subscribe to. Prompts may be
    registered at any time, and clients are told then.
    """

    def __init__(self, features: FeatureListHandler, name: str, **options: Any) -> None:
        self._features = features
        super().__init__(name, **options)

    def get_capabilities(self, *args: Any, **options: Any) -> ServerCapabilities:
        capabilities = super().get_capabilities(*args, **options)
        offers = self._features.offers
        absent: dict[str, Any] = {} if offers("completions") else {"completions": None}
        resources = capabilities.resources
        if resources is not None and not offers("resources"):
            # There are links to whole results, and nothing to subscribe to.
            absent["resources"] = resources.model_copy(update={"subscribe": False})
        return capabilities.model_copy(update=absent)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)
