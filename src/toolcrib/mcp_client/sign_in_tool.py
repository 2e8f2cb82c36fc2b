"""A tool in the place of those of a server that a person has to sign in to first: a client that
lists tools, and knows nothing of servers that are away, learns from it what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolcrib.mcp_client.results import RemoteHandler
from toolcrib.mcp_client.tool_list import RemoteTools
from toolcrib.tools.identity import HandlerIdentity
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.result import ToolResult
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext

SIGN_IN: Final = "sign_in"
_SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class SignInNotice:
    """Says how to sign in to a server. The words have no secret."""

    server: str
    how: Callable[[], str] = field(compare=False)

    async def call(
        self, handler: RemoteHandler, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResult[Any]:
        """As `ToolServer.call`."""
        text = f"The person has to sign in to `{self.server}`: {self.how()}."
        return ToolResult(value=f"{text} Its tools are listed then.")


def sign_in_tools(notice: SignInNotice, prefix: str, source: str) -> RemoteTools:
    """The one tool of a server that nobody has signed in to."""
    name = f"{prefix}{SIGN_IN}"
    identity = HandlerIdentity({"server": notice.server, "server_program": None})
    tool = Tool[Any, Any](
        name=name,
        description=f"Say how the person signs in to {notice.server}, whose tools need that.",
        handler=RemoteHandler(notice, SIGN_IN, SIGN_IN, identity),
        calling="input",
        json_schema=_SCHEMA,
        source=source,
    )
    prepare(tool)
    return RemoteTools({name: tool})


def is_notice(tools: RemoteTools) -> bool:
    """Whether these are the tools of a server that nobody has signed in to."""
    handlers = [tool.handler for tool in tools.served.values()]
    return any(
        isinstance(each, RemoteHandler) and isinstance(each.server, SignInNotice)
        for each in handlers
    )
