"""Failures of connections and of calls, as sentences for the operator and for the caller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from toolcrib.errors import CallEnded, ConnectionLost, ToolcribError
from toolcrib.mcp_client.config import printable_line

if TYPE_CHECKING:
    from toolcrib.mcp_client.connection import Connection
    from toolcrib.mcp_client.running_calls import AskingCall
    from toolcrib.tools.redaction import Scrubber


class ConnectionEnd:
    """Whether and why a connection has ended. `wake` is set with it, for a task that waits for
    several things.
    """

    def __init__(self, wake: asyncio.Event) -> None:
        self.reason = ""
        self.over = asyncio.Event()
        self.hint = ""
        """A likely cause, for a failure whose own message says little."""
        self._wake = wake

    def set(self, reason: str) -> None:
        """End the connection; the first reason counts."""
        self.reason = self.reason or reason
        self.over.set()
        self._wake.set()


def connection_fault(error: BaseException) -> str:
    """Why there is no connection, as a clause about the server: "it took too long"."""
    if isinstance(error, ConnectionLost) and str(error):
        return str(error)
    return _describe(_innermost(error))


_NOT_ALLOWED: Final = {
    "Elicitation not supported": "ask people (`elicitation: deny`)",
    "Sampling not supported": "use the model of a client (`sampling: deny`)",
    "List roots not supported": "see roots (`share_roots: false`)",
}
"""How the SDK refuses, in our name, what the configuration of a server denies."""


def call_failure(
    error: Exception, server: str, call: AskingCall, connection: Connection, scrubber: Scrubber
) -> CallEnded:
    """The failure of a call that got no result."""
    import mcp_types
    from mcp import MCPError

    tool = call.context.tool_name

    if isinstance(error, MCPError):
        if connection.is_over or error.code == mcp_types.CONNECTION_CLOSED:
            return _disconnected(server)
        if error.code == mcp_types.PARSE_ERROR:
            return CallEnded(
                "invalid_result", f"The result of `{tool}` cannot be read, or is too large."
            )
        for refusal in call.refusals:
            if refusal in error.message:
                return CallEnded("unavailable", f"`{tool}` could not go on. {refusal}.")
        for text, action in _NOT_ALLOWED.items():
            if text in error.message:
                return CallEnded(
                    "unavailable",
                    f"`{tool}` could not go on. The MCP server {server} may not {action} here.",
                )
        message = printable_line(error.message, scrubber)
        if error.code == mcp_types.URL_ELICITATION_REQUIRED and call.client is not None:
            # The client opens the addresses in the data, and calls again.
            call.client.fail(error.code, message, scrubber.scrub(error.data))
        return CallEnded("tool_error", f"The MCP server {server} refused the call: {message}")
    if isinstance(error, ValueError | RuntimeError):
        return CallEnded(
            "invalid_result", f"`{tool}` returned a result that does not match its output schema."
        )
    return _disconnected(server)


def _disconnected(server: str) -> CallEnded:
    return CallEnded(
        "unavailable",
        f"The MCP server {server} disconnected before it answered; the call may have run.",
    )


def _innermost(error: BaseException) -> BaseException:
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        elif isinstance(error, ConnectionLost) and error.__cause__ is not None:
            error = error.__cause__
        else:
            return error


def _describe(error: BaseException) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "there is no such program, or no such folder to start it in"
        case ModuleNotFoundError():
            return "the package `mcp` is not installed; install toolcrib[mcp]"
        case PermissionError():
            return "this user may not start its program"
        case TimeoutError():
            return "it took too long to answer"
        case ToolcribError():
            return str(error)
        case _ if type(error).__module__.startswith("httpx2"):
            return f"its address does not answer ({type(error).__name__})"
        case _ if isinstance(error, ValueError) or _is_parse_error(error):
            # The library's message quotes what was sent, which may not be meant for the caller.
            return "it answered with something that is no MCP message"
        case _:
            return f"{type(error).__name__}: {error}"


def _is_parse_error(error: BaseException) -> bool:
    import mcp_types
    from mcp import MCPError

    return isinstance(error, MCPError) and error.code == mcp_types.PARSE_ERROR
