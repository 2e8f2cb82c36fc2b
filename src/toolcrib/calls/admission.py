"""Waiting for a turn to run: the parallel cap, threads, and tools that run one at a time.

A call waits here before it starts, so that waiting costs it none of its time limit and a crash
meanwhile leaves nothing in doubt.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.calls.limits import Limits


class Admission:
    """Lets calls in."""

    def __init__(self, limits: Limits) -> None:
        self._parallel = asyncio.Semaphore(limits.max_parallel) if limits.max_parallel else None
        self._threads = asyncio.Semaphore(limits.max_threads)
        self._alone: dict[str, asyncio.Lock] = {}
        self._next: dict[str, asyncio.Lock] = {}

    def is_free_for(self, call: Call) -> bool:
        """True when the call need not wait for anything."""
        tool = call.tool
        has_thread = tool.is_async or tool.ref.place != "local"
        return self._parallel is None and has_thread and not tool.tool.one_at_a_time

    async def enter(self, call: Call) -> AsyncExitStack:
        """Wait for the call's turn; it is over when the returned stack is closed."""
        slots = self._parallel if call.depth == 0 else None
        async with AsyncExitStack() as stack:
            if call.tool.tool.one_at_a_time:
                await self._enter_alone(stack, call.name, slots)
            elif slots is not None:
                await stack.enter_async_context(slots)
            if needs_thread(call):
                await stack.enter_async_context(self._threads)
            return stack.pop_all()

    async def _enter_alone(
        self, stack: AsyncExitStack, name: str, slots: asyncio.Semaphore | None
    ) -> None:
        tool = self._alone.setdefault(name, asyncio.Lock())
        if slots is None:
            await stack.enter_async_context(tool)
            return
        async with self._next.setdefault(name, asyncio.Lock()):
            # No slot is held while the tool is busy, or its queue would fill them all.
            async with tool:
                pass
            # The tool is not held while a slot is waited for: the call in that slot may need it.
            await stack.enter_async_context(slots)
            await stack.enter_async_context(tool)


def needs_thread(call: Call) -> bool:
    """Whether the handler is a sync one, which runs off the loop."""
    return not call.tool.is_async and call.tool.ref.place == "local"
