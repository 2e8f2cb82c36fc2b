"""What a toolset takes as a tool, in whichever style it is written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

from pydantic_core import from_json, to_json

from toolcrib.calls.threads import shared_threads
from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import FunctionTool
from toolcrib.tools.prepared_tool import Describes, PreparedTool, as_tool, is_available, prepare
from toolcrib.toolsets.base_tool import BaseTool, GovernedFunction
from toolcrib.toolsets.user_code import LIBRARY, signal_of

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

    from toolcrib.tools.identity import BindTo
    from toolcrib.tools.tool import Tool


@runtime_checkable
class ToolSource(Protocol):
    """Tools that come and go: a registry of host tools, a mounted MCP server."""

    def tools_for(self, context: ToolContext) -> Sequence[Tool[Any, Any]]:
        """The tools that a session has now."""
        ...


AnyStyle: TypeAlias = "type[BaseTool] | BaseTool | FunctionTool[..., Any] | Tool[Any, Any] | Describes | ToolSource | AbstractToolset[Any]"  # noqa: E501
"""A `BaseTool` class or instance, a function under `@tool`, a `Tool`, anything with `to_tool` such
as a `HostToolDefinition`, a registry, a mounted MCP server, or a toolset of pydantic-ai."""


@dataclass(frozen=True, slots=True)
class ToolInputs:
    """The tools that a toolset was given, by style."""

    tools: dict[str, BaseTool] = field(default_factory=dict[str, BaseTool])
    sources: list[ToolSource] = field(default_factory=list[ToolSource])
    foreign: list[AbstractToolset[Any]] = field(default_factory=list["AbstractToolset[Any]"])

    @property
    def may_grow(self) -> bool:
        """Whether there may be tools that are not known yet."""
        return bool(self.sources or self.foreign)


def read_inputs(tools: Iterable[AnyStyle]) -> ToolInputs:
    """Sort out what a toolset was given. Raises `InvalidTool` and `DuplicateTool`."""
    inputs = ToolInputs()
    for declared in tools:
        if _is_foreign_toolset(declared):
            inputs.foreign.append(cast("AbstractToolset[Any]", declared))
        elif isinstance(declared, ToolSource):
            inputs.sources.append(declared)
        else:
            tool = base_tool(declared)
            if tool.name in inputs.tools:
                raise DuplicateTool(f"two tools are named {tool.name!r}; names must be unique")
            inputs.tools[tool.name] = tool
    return inputs


def base_tool(declared: object) -> BaseTool:
    """A tool of any style in the form of a toolset. Raises `InvalidTool`."""
    match declared:
        case BaseTool():
            tool = declared
        case FunctionTool():
            tool = GovernedFunction(cast("FunctionTool[..., Any]", declared))
        case type() if issubclass(declared, BaseTool):
            tool = declared()
        case _:
            tool = DeclaredTool(_as_tool(declared))
    tool.to_tool()
    return tool


def _as_tool(declared: object) -> Tool[Any, Any]:
    try:
        tool = as_tool(declared)
    except InvalidTool as error:
        raise InvalidTool(
            f"{error}; a toolset takes BaseTool classes and instances, functions under @tool, "
            "Tools, host tool definitions, registries, mounted MCP servers and toolsets of "
            "pydantic-ai"
        ) from None
    if tool.place == "provider":
        raise InvalidTool(
            f"tool {tool.name!r} is run by the model's provider; give it to the agent as one of "
            "its builtin tools, or to a prompt"
        )
    return tool


def _is_foreign_toolset(declared: object) -> bool:
    library = sys.modules.get(f"{LIBRARY}.toolsets")
    return library is not None and isinstance(declared, library.AbstractToolset)


class DeclaredTool(BaseTool):
    """A tool that is not written as a class, as a toolset runs it."""

    def __init__(self, tool: Tool[Any, Any]) -> None:
        self.declared = tool
        self.name = tool.name  # pyright: ignore[reportAttributeAccessIssue]
        self.description = tool.description  # pyright: ignore[reportAttributeAccessIssue]
        self._prepared: PreparedTool | None = None

    @property
    def instructs(self) -> bool:
        """Whether it has a text for the system prompt."""
        return self.declared.instruction is not None

    def is_available(self) -> bool:
        """Whether the tool can be used now."""
        return is_available(self.declared)

    def get_instruction(self, ctx: Any) -> str | None:
        """The tool's text for the system prompt."""
        instruction = self.declared.instruction
        return None if instruction is None else instruction(ctx)

    def to_tool(self, handler: Any = None) -> Tool[Any, Any]:
        """The tool itself."""
        return self.declared

    async def call(self, ctx: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run the tool with these arguments, which its own types read."""
        ready = self.prepare("code")
        params = ready.parse(to_json(kwargs))
        context = getattr(ctx, "tool_context", None) or ctx
        if ready.is_async:
            return await ready.invoke(params, context)
        return await shared_threads().submit(ready.invoke, params, context)

    def prepare(self, bind_to: BindTo) -> PreparedTool:
        """The tool for an executor, as it is."""
        if self._prepared is None or self._prepared.identity.bind_to != bind_to:
            self._prepared = prepare(self.declared, bind_to=bind_to)
        return self._prepared


def prepare_declared(
    tool: DeclaredTool, bind_to: BindTo, override: Callable[..., Any] | None
) -> PreparedTool:
    """The tool for the executor of a toolset. `override` runs it in the tool's place, with the
    context and the arguments by name.
    """
    ready = tool.prepare(bind_to)
    if ready.tool.handler is None:
        return ready
    if override is not None:

        async def overridden(params: Any, ctx: ToolContext | None) -> Any:
            return await override(ctx, **from_json(ready.dump(params)))

        return replace(ready, invoke=overridden, is_async=True, wants_context=True)
    invoke = _packing(ready) if ready.is_async else _packing_in_thread(ready)
    return replace(ready, invoke=invoke, wants_context=True)


def _packing(ready: PreparedTool) -> Callable[[Any, ToolContext | None], Any]:
    async def invoke(params: Any, ctx: ToolContext | None) -> Any:
        try:
            value = ready.invoke(params, ctx)
            return _packed(ctx, await value if isawaitable(value) else value)
        except Exception as error:
            _raise_signal(error)
            raise

    return invoke


def _packing_in_thread(ready: PreparedTool) -> Callable[[Any, ToolContext | None], Any]:
    def invoke(params: Any, ctx: ToolContext | None) -> Any:
        try:
            return _packed(ctx, ready.invoke(params, ctx))
        except Exception as error:
            _raise_signal(error)
            raise

    return invoke


def _packed(ctx: ToolContext | None, value: Any) -> Any:
    if ctx is None or ctx.run is None:
        return value
    from toolcrib.toolsets.agent_bridge.values import pack

    return pack(value)


def _raise_signal(error: Exception) -> None:
    """Raise the signal that an exception of pydantic-ai stands for, if it does."""
    signal = signal_of(error)
    if signal is not None and signal is not error:
        raise signal from error
