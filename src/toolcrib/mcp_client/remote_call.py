"""The handler of a tool that another server runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.errors import InvalidEvent

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.result import ToolResult


class Runs(Protocol):
    """Whoever can have a call run by a server."""

    async def call(
        self, name: str, promise: str, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResult[Any]:
        """Run a tool by its own name, if it still is what was promised."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """Runs one tool of a server. Equal as long as the tool is the same, so that a list which says
    nothing new changes nothing.
    """

    server: Runs
    name: str
    promise: str

    async def __call__(self, given: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        """Have the server run it."""
        return await self.server.call(self.name, self.promise, given, context)


def tell_progress(
    context: ToolContext, current: float, total: float | None, message: str | None
) -> None:
    """Give a server's progress on. What cannot be told, or comes too late, is left out."""
    try:
        context.progress(current, total, message)
    except InvalidEvent:
        return
