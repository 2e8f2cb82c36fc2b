"""Calls that the connected client runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import from_json

from toolcrib.calls.halt import Halt
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.runtime.messages import ClientTool

SOURCE = "client"
"""The source of every tool that a client brings."""


class ClientGone(Exception):
    """The client that was asked to run a call is no longer there."""


class ClientLink(Protocol):
    """The way to a client that runs tools. A transport gives one for each connection."""

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Have the client run a call. Raises `ClientGone` when it leaves; what else it raises is
        the tool's failure. Cancelled when the result is no longer wanted.
        """
        ...


class ClientCalls:
    """Runs the client-run calls of one session, over whichever link is there."""

    def __init__(self) -> None:
        self._link: ClientLink | None = None
        self._running: set[asyncio.Task[Any]] = set()

    def attach(self, link: ClientLink) -> Callable[[], None]:
        """Let a client run the session's calls; returns what ends it. A client that comes takes
        the place of the one before, and that one's calls fail.
        """
        self._leave()
        self._link = link
        return lambda: self.detach(link)

    def detach(self, link: ClientLink) -> None:
        """The client is gone; calls that need it fail, until another comes."""
        if self._link is link:
            self._leave()

    async def run(self, call: Call) -> Any:
        """Run a frozen call; its failure is typed when nobody is there, or leaves."""
        if self._link is None:
            raise Halt("unavailable", f"The client that runs `{call.name}` is not connected.")
        work = asyncio.ensure_future(self._ask(self._link, call))
        self._running.add(work)
        try:
            await asyncio.wait([work])
        finally:
            self._running.discard(work)
            work.cancel()
        if work.cancelled():
            raise _left(call)
        return work.result()

    async def _ask(self, link: ClientLink, call: Call) -> Any:
        try:
            return await link.run(call.call_id, call.name, from_json(call.arguments))
        except ClientGone:
            raise _left(call) from None

    def _leave(self) -> None:
        self._link = None
        for work in tuple(self._running):
            work.cancel()


def _left(call: Call) -> Halt:
    return Halt("unavailable", f"The client that runs `{call.name}` left before it answered.")


def client_tool(told: ClientTool) -> Tool[Any, Any]:
    """A tool as a client describes it. Raises `InvalidTool`."""
    return Tool[Any, Any](
        name=told.name,
        description=told.description,
        json_schema=dict(told.parameters),
        calling="input",
        source=SOURCE,
        requires_approval=told.requires_approval,
        timeout=told.timeout,
    )
