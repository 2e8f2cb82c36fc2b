"""Tools that run one call at a time: who runs, who waits, and who would wait for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolcrib.calls.halt import Halt

if TYPE_CHECKING:
    from toolcrib.calls.call import Call


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
                raise Halt(
                    "recursion_limit",
                    f"`{call.name}` runs one call at a time, and the call that runs waits for "
                    f"`{holder.name}`, which waits for this one.",
                )
            seen.add(holder)
            names += [wanted for one, wanted in self._waiting.items() if _is_within(one, holder)]


def _is_within(call: Call, outer: Call) -> bool:
    """Whether `call` is `outer`, or was made by it, or by what it made."""
    each: Call | None = call
    while each is not None:
        if each is outer:
            return True
        each = each.parent
    return False
