"""One tool of a toolset, as an override of how tools are run sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

from toolcrib.errors import ControlFlow
from toolcrib.tools.prepared import Declaration
from toolcrib.toolsets.base_tool import BaseTool
from toolcrib.toolsets.edge import signal_of

DepsT = TypeVar("DepsT", default=Any)


@dataclass(frozen=True, slots=True)
class HookableToolsetTool(Generic[DepsT]):
    """One tool of a toolset, as an override of `_call_tool_func` sees it.

    The type argument is that of the run context: it is for the reader, nothing depends on it.
    """

    tool: BaseTool
    timeout: float | None
    tool_def: Declaration

    async def call_func(self, args: dict[str, Any], ctx: Any) -> Any:
        """Run the tool's own `call`."""
        return await self.tool.call(ctx, **args)


@dataclass(frozen=True, slots=True)
class WatchedTool(HookableToolsetTool):
    """A tool during one call. It remembers a signal of the tool, such as a question for approval,
    so that an override with a broad `except` cannot turn it into a result.
    """

    signals: list[ControlFlow] = field(default_factory=list[ControlFlow])

    async def call_func(self, args: dict[str, Any], ctx: Any) -> Any:
        """Run the tool's own `call`; what an earlier attempt signalled is void."""
        self.signals.clear()
        try:
            return await self.tool.call(ctx, **args)
        except Exception as error:
            signal = signal_of(error)
            if signal is not None:
                self.signals.append(signal)
            raise
