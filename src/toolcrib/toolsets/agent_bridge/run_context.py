"""The run context that tools and hooks get inside an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import RunContext

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext


@dataclass(repr=False, kw_only=True)
class ToolRunContext(RunContext[Any]):
    """pydantic-ai's run context of one call, with the attributes of the call's `ToolContext` as
    well: `session`, `cwd`, `progress()`, `call_tool()` and the rest. `tool_context` is it.

    `tool_call_approved` is true only when this session's gate let an approved call pass.
    """

    tool_context: ToolContext | None = None

    def __getattr__(self, name: str) -> Any:
        context = self.__dict__.get("tool_context")
        if context is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(context, name)


def run_context(ctx: ToolContext) -> RunContext[Any]:
    """The run context of a call in an agent: the same object for its hooks and its tool."""
    run = cast("RunContext[Any]", ctx.run)
    if not isinstance(run, ToolRunContext) or run.tool_context is not ctx:
        run = ctx.run = with_tool_context(run, ctx)
    run.tool_call_approved = ctx.tool_call_approved
    return run


def with_tool_context(run: RunContext[Any], ctx: ToolContext) -> ToolRunContext:
    """A copy of a run context with a tool context behind it, and the deps of that context."""
    copy = ToolRunContext.__new__(ToolRunContext)
    # Not through the constructor: the run context of a durable agent has only some of the fields.
    copy.__dict__.update(run.__dict__)
    copy.tool_context = ctx
    copy.deps = ctx.deps
    return copy
