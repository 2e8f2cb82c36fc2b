"""The current MCP request, for handlers that log, sample or elicit while they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitResult,
    ListRootsRequest,
    ListRootsResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.mcp_client.calling_client import CLIENT_HERE
from toolcrib.transports.mcp.notifications import log_level_of, wants_log

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ClientCapabilities,
        CreateMessageRequestParams,
        InputRequest,
        InputRequiredResult,
        InputResponse,
        LoggingLevel,
        ServerNotification,
    )

    from toolcrib.mcp_client.calling_client import ClientCapability


HERE: Final = CLIENT_HERE


class ReturningClient(Protocol):
    """A stateless client that comes back with answers, and its latest request."""

    latest: McpRequest

    async def ask(self, request: InputRequest) -> InputResponse:
        """Keep a request until the client has brought its response."""
        ...


@dataclass(slots=True, eq=False)
class McpRequest:
    """One `tools/call`. `context` and `params` are the SDK's own.

    `sample` and `elicit` need a client of the handshake protocol. In the stateless one a handler
    answers with an `InputRequiredResult` instead, and finds the responses in `params` when the
    client calls again.
    """

    context: ServerRequestContext[Any, Any]
    params: CallToolRequestParams
    reply: CallToolResult | InputRequiredResult | MCPError | None = None
    returning: ReturningClient | None = None
    """The stateless client, if its call is held until it comes back."""
    is_over: bool = False
    reported: float = float("-inf")
    """The last progress that was reported."""

    @property
    def session(self) -> ServerSession:
        """The session of the SDK, with the rest of the protocol."""
        return self.context.session

    def answer(self, result: CallToolResult | InputRequiredResult) -> None:
        """Set the answer to the client, sent once the handler has returned. The ledger records the
        value that the handler returns.
        """
        self.reply = result

    def require(self, needed: ClientCapabilities) -> None:
        """Fail the call unless the client has these capabilities. In the stateless protocol the
        answer is the error that names the missing ones.
        """
        if self.session.check_client_capability(needed):
            return
        missing = needed.model_dump(by_alias=True, mode="json", exclude_none=True)
        message = f"the client lacks capabilities that this call needs: {', '.join(missing)}"
        error = MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY, message, {"requiredCapabilities": missing}
        )
        if self.context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self.reply = error
        raise error

    @property
    def client_name(self) -> str:
        """The name and version that the client reports."""
        client = self.session.client_params
        return f"{client.client_info.name} {client.client_info.version}"[:200] if client else "?"

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least urgent level of messages that the client has asked for."""
        return log_level_of(self.context)

    def can(self, capability: ClientCapability) -> bool:
        """Whether the client has declared a capability, and can be asked."""
        declared = self.session.client_capabilities
        if declared is None:
            return False
        match capability:
            case "sampling":
                return declared.sampling is not None
            case "sampling.tools":
                return declared.sampling is not None and declared.sampling.tools is not None
            case "elicitation.url":
                return declared.elicitation is not None and declared.elicitation.url is not None
            case "roots":
                return declared.roots is not None

    async def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message with this request, if the client wants messages of that level."""
        request = self._latest
        if wants_log(request.context, level):
            params = LoggingMessageNotificationParams(level=level, data=data, logger=logger)
            await request.notify(LoggingMessageNotification(params=params))

    async def notify(self, notification: ServerNotification) -> None:
        """Send a notification with this request; after it, by itself."""
        context = self.context
        related = None if self.is_over else context.request_id
        await context.session.send_notification(notification, related)

    async def report(self, current: float, total: float | None, message: str | None) -> None:
        """Report progress, if the client wants any and the number has grown."""
        request = self._latest
        if not request.is_over and current > request.reported:
            request.reported = current
            await request.context.session.report_progress(current, total, message)

    def fail(self, code: int, message: str, data: Any) -> None:
        """Answer with an error of the protocol, once the call has failed."""
        self._latest.reply = MCPError(code, message, data)

    async def forward(self, request: InputRequest) -> InputResponse:
        """Have the client answer a request: over the connection, or when it comes back."""
        if self.returning is not None:
            return await self.returning.ask(request)
        context = self.context
        return await context.session.send_request(
            request,
            response_type(request),
            metadata=ServerMessageMetadata(related_request_id=context.request_id),
        )

    @property
    def _latest(self) -> McpRequest:
        return self if self.returning is None else self.returning.latest

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Have the client's model answer."""
        context = self.context
        return await context.session.send_request(
            CreateMessageRequest(params=params),
            CreateMessageResult,
            metadata=ServerMessageMetadata(related_request_id=context.request_id),
        )

    async def elicit(self, message: str, schema: dict[str, Any]) -> ElicitResult:
        """Ask the person at the client to fill in a form."""
        context = self.context
        return await context.session.elicit_form(message, schema, context.request_id)


def response_type(request: InputRequest) -> type[InputResponse]:
    """The type of the response to a request."""
    match request:
        case CreateMessageRequest(params=params):
            return CreateMessageResult if params.tools is None else CreateMessageResultWithTools
        case ElicitRequest():
            return ElicitResult
        case ListRootsRequest():
            return ListRootsResult


def current_request() -> McpRequest | None:
    """The request that the running handler serves; None when the call came another way."""
    return cast("McpRequest | None", HERE.get())
