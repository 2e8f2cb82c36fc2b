"""One turn at a time in a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.runtime.config import WhenBusy

T = TypeVar("T")

MOST_WAITING: Final = 32
"""How many turns may be enqueued behind the one that runs."""


class TurnSlot:
    """Holds the turn that is running and those that wait for their turn. What becomes of another
    one is for who asks to say: refused, enqueued, or in the place of all that are there.
    """

    def __init__(self) -> None:
        self._free = asyncio.Lock()
        self._turns: list[asyncio.Task[Any]] = []

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running or waiting."""
        return bool(self._turns)

    async def run(self, work: Callable[[], Awaitable[T]], when_busy: WhenBusy) -> T | None:
        """Run a turn; None when it was cancelled. It goes on when whoever waits for it leaves."""
        if self._turns:
            self._make_way(when_busy)
        task = asyncio.ensure_future(self._in_turn(work))
        # At once, not when the task begins: of two that ask in one breath, one is refused.
        self._turns.append(task)
        task.add_done_callback(self._turns.remove)
        await asyncio.wait([task])
        return None if task.cancelled() else task.result()

    async def cancel(self) -> bool:
        """Cancel the running turn and wait for its end; False when there is none."""
        if not self._turns:
            return False
        running = self._turns[0]
        running.cancel()
        await asyncio.wait([running])
        return True

    def cancel_all(self) -> list[asyncio.Task[Any]]:
        """Cancel every turn, and give those that have yet to end."""
        turns = list(self._turns)
        for task in turns:
            task.cancel()
        return turns

    def _make_way(self, when_busy: WhenBusy) -> None:
        match when_busy:
            case "reject":
                raise Refused(
                    "busy",
                    "a prompt of this session is being answered; wait for it, cancel it, or ask to "
                    "be enqueued",
                )
            case "enqueue":
                if len(self._turns) > MOST_WAITING:
                    raise Refused("busy", f"{MOST_WAITING} prompts wait in this session already")
            case "interrupt":
                self.cancel_all()
            case _:
                assert_never(when_busy)

    async def _in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._free:
            return await work()
