"""Waiting for a turn to run: the parallel cap, threads, and tools that run one at a time.

A call waits here before it starts, so that waiting costs it none of its tool's time limit and a
crash meanwhile leaves nothing in doubt. A deadline is for the whole call and ends the wait.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from toolcrib.calls.one_at_a_time import OneAtATime
from toolcrib.errors import ToolTimeout

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.calls.limits import Limits


class Admission:
    """Lets calls in."""

    def __init__(self, limits: Limits) -> None:
        self._parallel = asyncio.Semaphore(limits.max_parallel) if limits.max_parallel else None
        self._threads = asyncio.Semaphore(limits.max_threads)
        self._alone = OneAtATime()
        self._next: dict[str, asyncio.Lock] = {}

    def is_free_for(self, call: Call) -> bool:
        """True when the call need not wait for anything."""
        tool = call.tool
        has_thread = tool.is_async or tool.ref.place != "local"
        return self._parallel is None and has_thread and not tool.tool.one_at_a_time

    async def enter(self, call: Call) -> AsyncExitStack:
        """Wait for the call's turn; it is over when the returned stack is closed.

        Raises `ToolTimeout` when the call's deadline passes meanwhile.
        """
        try:
            async with asyncio.timeout_at(call.deadline):
                return await self._enter(call)
        except TimeoutError:
            raise ToolTimeout(
                f"`{call.name}` was not started: its deadline passed while it waited for its turn."
            ) from None

    async def _enter(self, call: Call) -> AsyncExitStack:
        slots = self._parallel if call.depth == 0 else None
        async with AsyncExitStack() as stack:
            if call.tool.tool.one_at_a_time:
                await self._enter_alone(stack, call, slots)
            elif slots is not None:
                await stack.enter_async_context(slots)
            if needs_thread(call):
                await stack.enter_async_context(self._threads)
            return stack.pop_all()

    async def _enter_alone(
        self, stack: AsyncExitStack, call: Call, slots: asyncio.Semaphore | None
    ) -> None:
        if slots is None:
            await stack.enter_async_context(self._alone.hold(call))
            return
        async with self._next.setdefault(call.name, asyncio.Lock()):
            # No slot is held while the tool is busy, or its queue would fill them all.
            async with self._alone.hold(call):
                pass
            # The tool is not held while a slot is waited for: the call in that slot may need it.
            await stack.enter_async_context(slots)
            await stack.enter_async_context(self._alone.hold(call))


def needs_thread(call: Call) -> bool:
    """Whether the handler is a sync one, which runs off the loop."""
    return not call.tool.is_async and call.tool.ref.place == "local"
