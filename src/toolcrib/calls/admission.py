"""Admission: how many calls run at once, in threads, and of tools that run one call at a time.

A call waits here before it starts, so that waiting costs it none of its tool's time limit and a
crash meanwhile leaves nothing in doubt. A deadline is for the whole call and ends the wait. Tools
that call each other could wait for each other for ever; such a call ends instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from toolcrib.errors import CallEnded, ToolTimeout

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.calls.outcome import Limits


class OneAtATime:
    """A queue for each such tool."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._running: dict[str, Call] = {}
        self._waiting: dict[Call, str] = {}

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncGenerator[None]:
        """Have the tool for this call alone, once it is free.

        Ends a call that would wait for its own caller: tools that call each other, called at the
        same time, each hold what the other one needs.
        """
        self._check_circle(call)
        lock = self._locks.setdefault(call.name, asyncio.Lock())
        self._waiting[call] = call.name
        try:
            await lock.acquire()
        finally:
            del self._waiting[call]
        self._running[call.name] = call
        try:
            yield
        finally:
            del self._running[call.name]
            lock.release()

    def _check_circle(self, call: Call) -> None:
        """Go from the tool to the call that has it, and from that to the tools it waits for."""
        names = [call.name]
        seen: set[Call] = set()
        for name in names:
            holder = self._running.get(name)
            if holder is None or holder in seen:
                continue
            if _is_within(call, holder):
                raise CallEnded(
                    "recursion_limit",
                    f"`{call.name}` runs one call at a time, and the call that runs waits for "
                    f"`{holder.name}`, which waits for this one.",
                )
            seen.add(holder)
            names += [wanted for one, wanted in self._waiting.items() if _is_within(one, holder)]


def _is_within(call: Call, outer: Call) -> bool:
    """Whether `call` is `outer`, or was made by it, or by what it made."""
    ancestor: Call | None = call
    while ancestor is not None:
        if ancestor is outer:
            return True
        ancestor = ancestor.parent
    return False


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
