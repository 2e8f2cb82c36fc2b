"""Calls that the connected client runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import from_json

from toolcrib.calls.halt import Halt
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.runtime.messages import ClientTool


class ClientGone(Exception):
    """The client that was asked to run a call is no longer there."""


class ClientLink(Protocol):
    """The way to a client that runs tools. A transport gives one for each connection."""

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Have the client run a call. Raises `ClientGone` when it leaves; what else it raises is
        the tool's failure.
        """
        ...


class ClientCalls:
    """Runs the client-run calls of one session, over whichever link is there."""

    def __init__(self) -> None:
        self._link: ClientLink | None = None

    def attach(self, link: ClientLink) -> None:
        """Let a client run the session's calls. A client that comes back takes the place."""
        self._link = link

    def detach(self, link: ClientLink) -> None:
        """The client is gone; calls that need it fail until another comes."""
        if self._link is link:
            self._link = None

    async def run(self, call: Call) -> Any:
        """Run a frozen call; its failure is typed when nobody is there, or leaves."""
        if self._link is None:
            raise Halt("unavailable", f"The client that runs `{call.name}` is not connected.")
        try:
            return await self._link.run(call.call_id, call.name, from_json(call.arguments))
        except ClientGone:
            raise Halt(
                "unavailable", f"The client that runs `{call.name}` left before it answered."
            ) from None


def client_tool(told: ClientTool) -> Tool[Any, Any]:
    """A tool as a client describes it. Raises `InvalidTool`."""
    return Tool[Any, Any](
        name=told.name,
        description=told.description,
        json_schema=dict(told.parameters),
        calling="input",
        source="client",
        requires_approval=told.requires_approval,
        timeout=told.timeout,
    )
