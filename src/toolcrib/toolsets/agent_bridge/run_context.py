"""The run context that tools and hooks get inside an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import RunContext

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext


@dataclass(repr=False, kw_only=True)
class ToolRunContext(RunContext[Any]):
    """pydantic-ai's run context of one call. What only our context has is there as well: `session`,
    `cwd`, `progress()`, `call_tool()` and the rest; `tool_context` is that context itself.

    `tool_call_approved` is true when this session's gate let an approved call pass, and only then.
    """

    tool_context: ToolContext | None = None

    def __getattr__(self, name: str) -> Any:
        ours = self.__dict__.get("tool_context")
        if ours is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(ours, name)


def run_context(ctx: ToolContext) -> RunContext[Any]:
    """The run context of a call in an agent: the same object for its hooks and its tool."""
    run = cast("RunContext[Any]", ctx.run)
    if not isinstance(run, ToolRunContext) or run.tool_context is not ctx:
        run = ctx.run = widened(run, ctx)
    run.tool_call_approved = ctx.tool_call_approved
    return run


def widened(run: RunContext[Any], ctx: ToolContext) -> ToolRunContext:
    """A copy of a run context with ours behind it. Its deps are the session's if it has none."""
    made = ToolRunContext.__new__(ToolRunContext)
    # Made anew for every call: to run through all of its fields would cost more than the call.
    made.__dict__.update(run.__dict__)
    made.tool_context = ctx
    made.deps = ctx.deps
    return made
