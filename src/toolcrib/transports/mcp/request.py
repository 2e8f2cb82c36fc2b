"""The current MCP request, for handlers that log, sample or elicit while they run."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.transports.mcp.notifications import wants_log

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ClientCapabilities,
        CreateMessageRequestParams,
        ElicitResult,
        InputRequiredResult,
        LoggingLevel,
    )

    Reply: TypeAlias = CallToolResult | InputRequiredResult | MCPError

HERE: Final[ContextVar[McpRequest | None]] = ContextVar("toolcrib_mcp_request", default=None)


@dataclass(slots=True, eq=False)
class McpRequest:
    """One `tools/call`. `context` and `params` are the SDK's own.

    `sample` and `elicit` need a client of the handshake protocol. In the stateless one a handler
    answers with an `InputRequiredResult` instead, and finds the responses in `params` when the
    client calls again.
    """

    context: ServerRequestContext[Any, Any]
    params: CallToolRequestParams
    reply: Reply | None = None

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

    async def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message with this request, if the client wants messages of that level."""
        context = self.context
        if wants_log(context, level):
            params = LoggingMessageNotificationParams(level=level, data=data, logger=logger)
            message = LoggingMessageNotification(params=params)
            await context.session.send_notification(message, context.request_id)

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


def current_request() -> McpRequest | None:
    """The request that the running handler serves; None when the call came another way."""
    return HERE.get()
