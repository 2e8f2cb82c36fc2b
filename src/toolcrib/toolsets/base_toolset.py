"""`BaseToolset`: the interface of every toolset, for programs and for pydantic-ai agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from typing_extensions import TypeVar

from toolcrib.errors import ControlFlow, UsageError
from toolcrib.tools.prepared_tool import Declaration
from toolcrib.toolsets.base_tool import BaseTool
from toolcrib.toolsets.user_code import signal_of

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

DepsT = TypeVar("DepsT", default=Any)


@dataclass(frozen=True, slots=True)
class HookableToolsetTool(Generic[DepsT]):
    """One tool of a toolset, as an override of `_call_tool_func` gets it.

    The type argument is that of the run context. It documents the override; nothing depends on it.
    """

    tool: BaseTool
    timeout: float | None
    tool_def: Declaration

    async def call_func(self, args: dict[str, Any], ctx: Any) -> Any:
        """Run the tool's own `call`."""
        return await self.tool.call(ctx, **args)


@dataclass(frozen=True, slots=True)
class SignalRecorder(HookableToolsetTool):
    """A tool during one call. It records the tool's signal, such as a request for approval, so
    that an override with a broad `except` cannot turn the signal into a result.
    """

    signals: list[ControlFlow] = field(default_factory=list[ControlFlow])

    async def call_func(self, args: dict[str, Any], ctx: Any) -> Any:
        """Run the tool's own `call`; the signal of an earlier attempt is void."""
        self.signals.clear()
        try:
            return await self.tool.call(ctx, **args)
        except Exception as error:
            signal = signal_of(error)
            if signal is not None:
                self.signals.append(signal)
            raise


class BaseToolset(ABC):
    """Tools with instructions for the model.

    A toolset is a function of the run context that returns a pydantic-ai toolset, which is what
    `Agent(toolsets=[...])` takes. `for_agent` returns the same toolset for everything else that
    pydantic-ai does with one. Neither imports pydantic-ai before it is called.
    """

    _agent_toolset: AbstractToolset[Any] | None = None
    _own_agent_toolset: AbstractToolset[Any] | None = None

    @property
    def id(self) -> str | None:
        """The toolset's name among the toolsets of an agent, if it has one."""
        return None

    @overload
    async def get_tools(self, ctx: None = None) -> dict[str, HookableToolsetTool]: ...

    @overload
    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]: ...

    @abstractmethod
    async def get_tools(self, ctx: Any = None) -> Any:
        """The available tools by name; for a run context, in the types of its agent."""

    @abstractmethod
    async def get_instructions(self, ctx: Any = None) -> str | None:
        """The text that the tools add to the system prompt; None when they add nothing."""

    @abstractmethod
    async def call_tool(self, name: str, tool_args: Any, ctx: Any = None, tool: Any = None) -> Any:
        """Call a tool and return its value."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def for_agent(self) -> AbstractToolset[Any]:
        """This toolset as pydantic-ai's `AbstractToolset`, the same object at every call.

        It has that library's combinators (`prefixed`, `filtered`, `approval_required`, ...) and
        goes where only an `AbstractToolset` is taken: `agent.run(toolsets=[...])`,
        `agent.override(toolsets=[...])`, durable execution.
        """
        if self._agent_toolset is None:
            self._agent_toolset = self.own_for_agent()
        return self._agent_toolset

    def own_for_agent(self) -> AbstractToolset[Any]:
        """The same, of the tools that are this toolset's own."""
        if self._own_agent_toolset is None:
            try:
                from toolcrib.toolsets.agent_bridge.toolset import AgentToolset
            except ImportError as error:
                raise UsageError(
                    f"`for_agent` needs pydantic-ai, which cannot be imported ({error}); "
                    "install toolcrib[pydantic-ai]"
                ) from error
            self._own_agent_toolset = AgentToolset(self)
        return self._own_agent_toolset

    def __call__(
        self, ctx: RunContext[Any], /
    ) -> AbstractToolset[Any] | Awaitable[AbstractToolset[Any]]:
        """The toolset of an agent run; pydantic-ai asks for it at every step.

        The same object as long as nothing changes, so that a run enters it once and leaves it at
        its end.
        """
        return self.for_agent()
