"""The MCP client whose call runs at a mounted server: what the server asks and says reaches it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

if TYPE_CHECKING:
    import mcp_types

ClientCapability = Literal["sampling", "sampling.tools", "elicitation.url", "roots"]


class CallingClient(Protocol):
    """A client of ours that speaks MCP, in either revision of the protocol."""

    @property
    def client_name(self) -> str:
        """The name and version that the client reports."""
        ...

    @property
    def log_level(self) -> mcp_types.LoggingLevel | None:
        """The least urgent level of messages that it has asked for; None when it has not."""
        ...

    def can(self, capability: ClientCapability) -> bool:
        """Whether it has declared a capability."""
        ...

    async def log(
        self, level: mcp_types.LoggingLevel, data: Any, logger: str | None = None
    ) -> None:
        """Send a log message, if it wants those of that level."""
        ...

    async def report(self, current: float, total: float | None, message: str | None) -> None:
        """Report progress, if it wants any."""
        ...

    async def forward(self, request: mcp_types.InputRequest) -> mcp_types.InputResponse:
        """Have it answer a request. Raises `MCPError`."""
        ...

    async def notify(self, notification: mcp_types.ServerNotification) -> None:
        """Send a notification; nothing happens when it has left."""
        ...

    def fail(self, code: int, message: str, data: Any) -> None:
        """Answer the call with an error of the protocol, once it has failed."""
        ...


CLIENT_HERE: Final[ContextVar[CallingClient | None]] = ContextVar(
    "toolcrib_mcp_request", default=None
)
"""The client that requested the current call; None when the call came another way."""
