"""Wrappers around users' tools and hooks, as the executor calls them.

Inside a pydantic-ai agent, tools and hooks are written in that library's terms. A wrapper passes
them its run context, translates its exceptions into Toolcrib's, and packs its values.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from inspect import Parameter
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.errors import ControlFlow

if TYPE_CHECKING:
    from toolcrib.calls.hooks import GlobalPostHook, GlobalPreHook, Hooks, PostHook, PreHook
    from toolcrib.tools.context import ToolContext
    from toolcrib.toolsets.base_tool import AsyncHandler

LIBRARY = "pydantic_ai"

PreT = TypeVar("PreT", bound="PreHook | GlobalPreHook | None")
PostT = TypeVar("PostT", bound="PostHook | GlobalPostHook | None")

_TOOL_CONTEXT = re.compile(r"(?:\w+\.)*ToolContext\b")


def takes_tool_context(function: Callable[..., Any]) -> bool:
    """Whether the first parameter of a tool or hook is annotated as a `ToolContext`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    annotation = next((parameter.annotation for parameter in parameters), Parameter.empty)
    # By name: an annotation that is imported for type checking only is a text at run time.
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return _TOOL_CONTEXT.match(name) is not None


def signal_of(error: Exception) -> ControlFlow | None:
    """The signal that an exception of a tool or hook stands for; None for an ordinary failure."""
    if isinstance(error, ControlFlow):
        return error
    if sys.modules.get(LIBRARY) is None:
        return None
    from toolcrib.toolsets.agent_bridge.values import translate

    return translate(error)


def wrap_handler(handler: AsyncHandler, tool: Callable[..., Any]) -> AsyncHandler:
    """The handler as the executor calls it; `tool` is the function that it runs in the end."""
    gets_tool_context = takes_tool_context(tool)

    @functools.wraps(tool)
    async def call(ctx: ToolContext, /, **args: Any) -> Any:
        try:
            if ctx.run is None:
                return await handler(ctx, **args)
            from toolcrib.toolsets.agent_bridge.values import run_handler

            return await run_handler(handler, ctx, args, gets_tool_context=gets_tool_context)
        except Exception as error:
            signal = signal_of(error)
            if signal is None or signal is error:
                raise
            raise signal from error

    return call


def wrap_pre_hook(hook: PreT) -> PreT:
    """A pre hook as the executor calls it."""
    return _wrap_hook(hook, is_post=False)


def wrap_post_hook(hook: PostT) -> PostT:
    """A post hook as the executor calls it."""
    return _wrap_hook(hook, is_post=True)


def _wrap_hook(hook: Any, *, is_post: bool) -> Any:
    if not callable(hook):
        # None, or a mistake that the executor reports.
        return hook
    gets_tool_context = takes_tool_context(hook)

    @functools.wraps(hook)
    def call(ctx: ToolContext, *rest: Any) -> Any:
        if ctx.run is None:
            return hook(ctx, *rest)
        from toolcrib.toolsets.agent_bridge.values import run_hook

        return run_hook(hook, ctx, rest, gets_tool_context=gets_tool_context, is_post=is_post)

    # Messages name a hook that is an object by its class.
    call.__qualname__ = getattr(hook, "__qualname__", type(hook).__qualname__)
    return call


def wrap_hooks(hooks: Hooks) -> Hooks:
    """Hooks as the executor calls them, those around calls wrapped."""
    return hooks.mapped(wrap_pre_hook, wrap_post_hook)
