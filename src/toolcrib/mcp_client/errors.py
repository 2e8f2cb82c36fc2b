"""What went wrong with a server, in words for whoever configured it or called it.

The end of a connection: seen by whoever reads it, told to whoever keeps it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from toolcrib.errors import CallEnded, ConnectionLost
from toolcrib.mcp_client.config import printable_line

if TYPE_CHECKING:
    from toolcrib.mcp_client.connection import Connection
    from toolcrib.tools.redaction import Scrubber


class ConnectionEnd:
    """Told once, with the reason. `stirred` is set too, for whoever waits for several things."""

    def __init__(self, stirred: asyncio.Event) -> None:
        self.reason = ""
        self.over = asyncio.Event()
        self.hint = ""
        """What may be behind a failure whose own words say little."""
        self._stirred = stirred

    def end(self, reason: str) -> None:
        """The connection is over; the first reason counts."""
        self.reason = self.reason or reason
        self.over.set()
        self._stirred.set()


def connection_fault(error: BaseException) -> str:
    """Why there is no connection, in a sentence without a subject."""
    if isinstance(error, ConnectionLost) and str(error):
        return str(error)
    return _told(_innermost(error))


def call_failure(
    error: Exception, server: str, tool: str, connection: Connection, hidden: Scrubber
) -> CallEnded:
    """The failure of a call that got no answer."""
    import mcp_types
    from mcp import MCPError

    if isinstance(error, MCPError):
        if connection.is_over or error.code == mcp_types.CONNECTION_CLOSED:
            return _left(server)
        if error.code == mcp_types.PARSE_ERROR:
            return CallEnded(
                "invalid_result", f"The answer of `{tool}` cannot be read, or is too large."
            )
        said = printable_line(error.message, hidden)
        return CallEnded("tool_error", f"The MCP server {server} refused the call: {said}")
    if isinstance(error, ValueError | RuntimeError):
        return CallEnded(
            "invalid_result", f"`{tool}` gave an answer that does not fit what it declares."
        )
    return _left(server)


def _left(server: str) -> CallEnded:
    return CallEnded(
        "unavailable",
        f"The MCP server {server} left before it answered; the call may have been carried out.",
    )


def _innermost(error: BaseException) -> BaseException:
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        elif isinstance(error, ConnectionLost) and error.__cause__ is not None:
            error = error.__cause__
        else:
            return error


def _told(error: BaseException) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "there is no such program, or no such folder to start it in"
        case ModuleNotFoundError():
            return "the package `mcp` is not installed; install toolcrib[mcp]"
        case PermissionError():
            return "its program may not be started by this user"
        case TimeoutError():
            return "it took too long to answer"
        case _ if type(error).__module__.startswith("httpx2"):
            return f"its address does not answer ({type(error).__name__})"
        case _:
            return f"{type(error).__name__}: {error}"
