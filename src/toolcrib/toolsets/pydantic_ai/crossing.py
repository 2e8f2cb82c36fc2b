"""Tools and hooks run inside an agent: with its run context, and with its values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from toolcrib.toolsets.edge import signal_of
from toolcrib.toolsets.packed import unpack
from toolcrib.toolsets.pydantic_ai.run_context import run_context
from toolcrib.toolsets.pydantic_ai.values import pack

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext
    from toolcrib.toolsets.base_tool import AsyncHandler


async def run_handler(
    handler: AsyncHandler, ctx: ToolContext, args: dict[str, Any], *, is_ours: bool
) -> Any:
    """Run a tool; `is_ours` says which of the two contexts it wants."""
    return pack(await handler(ctx if is_ours else run_context(ctx), **args))


def run_hook(
    hook: Callable[..., Any],
    ctx: ToolContext,
    rest: tuple[Any, ...],
    *,
    is_ours: bool,
    is_post: bool,
) -> Any:
    """Call a hook. What it returns is awaited by the executor, which refuses what cannot be."""
    shown = ctx if is_ours else run_context(ctx)
    if not is_post:
        reply = hook(shown, *rest)
        return _awaited(reply) if isawaitable(reply) else reply
    *named, packed = rest
    reply = hook(shown, *named, unpack(packed))
    return _repacked(reply, packed) if isawaitable(reply) else reply


async def _awaited(reply: Awaitable[Any]) -> Any:
    try:
        return await reply
    except Exception as error:
        signal = signal_of(error)
        if signal is None or signal is error:
            raise
        raise signal from error


async def _repacked(reply: Awaitable[Any], packed: Any) -> Any:
    result = await _awaited(reply)
    # Unchanged must stay the same object: only then does an exception keep its part.
    return packed if result is unpack(packed) else pack(result)
