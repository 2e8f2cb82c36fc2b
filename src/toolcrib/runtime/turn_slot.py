"""One turn at a time in a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.runtime.config import WhenBusy

T = TypeVar("T")


class TurnSlot:
    """Holds the turn that is running. What becomes of another one is for who asks to say: refused,
    enqueued, or in its place.
    """

    def __init__(self) -> None:
        self._free = asyncio.Lock()
        self._task: asyncio.Task[Any] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running or waiting."""
        return self._free.locked()

    async def run(self, work: Callable[[], Awaitable[T]], when_busy: WhenBusy) -> T:
        """Run a turn. It goes on when whoever waits for it leaves; `cancel` ends it."""
        match when_busy:
            case "reject" if self.is_busy:
                raise Refused(
                    "busy",
                    "a prompt of this session is being answered; wait for it, cancel it, or ask to "
                    "be enqueued",
                )
            case "interrupt":
                await self.cancel()
            case _:
                pass
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(work)))

    async def cancel(self) -> bool:
        """Cancel the running turn and wait for its end; False when there is none."""
        task = self._task
        if task is None or task.done():
            return False
        task.cancel()
        await asyncio.wait([task])
        return True

    async def _in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._free:
            task = self._task = asyncio.ensure_future(work())
            return await task
