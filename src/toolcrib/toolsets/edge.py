"""The edge between the executor and the code of users: tools and hooks.

Inside a pydantic-ai agent they are written in that library's terms, so on the way out they get its
run context, and on the way in its signals and its values become ours.
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
from toolcrib.toolsets.joining import LIBRARY

if TYPE_CHECKING:
    from toolcrib.calls.hooks import GlobalPostHook, GlobalPreHook, PostHook, PreHook
    from toolcrib.tools.context import ToolContext
    from toolcrib.toolsets.base_tool import AsyncHandler

Pre = TypeVar("Pre", bound="PreHook | GlobalPreHook | None")
Post = TypeVar("Post", bound="PostHook | GlobalPostHook | None")

_OURS = re.compile(r"(?:\w+\.)*ToolContext\b")


def takes_tool_context(function: Callable[..., Any]) -> bool:
    """Whether a tool or hook types its context as ours, not as pydantic-ai's or not at all."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    annotation = next((found.annotation for found in parameters), Parameter.empty)
    # By name: a type that is imported for type checking only is just a text here.
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return _OURS.match(name) is not None


def signal_of(error: Exception) -> ControlFlow | None:
    """The signal that an exception of a tool or hook stands for; None for an ordinary failure."""
    if isinstance(error, ControlFlow):
        return error
    if sys.modules.get(LIBRARY) is None:
        return None
    from toolcrib.toolsets.agent_bridge.values import translate

    return translate(error)


def edge_of_handler(handler: AsyncHandler, tool: Callable[..., Any]) -> AsyncHandler:
    """The handler as the executor calls it; `tool` is what it runs in the end."""
    is_ours = takes_tool_context(tool)

    @functools.wraps(tool)
    async def call(ctx: ToolContext, /, **args: Any) -> Any:
        try:
            if ctx.run is None:
                return await handler(ctx, **args)
            from toolcrib.toolsets.agent_bridge.values import run_handler

            return await run_handler(handler, ctx, args, is_ours=is_ours)
        except Exception as error:
            signal = signal_of(error)
            if signal is None or signal is error:
                raise
            raise signal from error

    return call


def edge_of_pre(hook: Pre) -> Pre:
    """A pre hook as the executor calls it."""
    return _edge_of_hook(hook, is_post=False)


def edge_of_post(hook: Post) -> Post:
    """A post hook as the executor calls it."""
    return _edge_of_hook(hook, is_post=True)


def _edge_of_hook(hook: Any, *, is_post: bool) -> Any:
    if not callable(hook):
        # There is none, or it is none: the executor says so.
        return hook
    is_ours = takes_tool_context(hook)

    @functools.wraps(hook)
    def call(ctx: ToolContext, *rest: Any) -> Any:
        if ctx.run is None:
            return hook(ctx, *rest)
        from toolcrib.toolsets.agent_bridge.values import run_hook

        return run_hook(hook, ctx, rest, is_ours=is_ours, is_post=is_post)

    # Messages name a hook that is an object by its class.
    call.__qualname__ = getattr(hook, "__qualname__", type(hook).__qualname__)
    return call
