"""The one turn at a time of a live session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.runtime.config import WhenBusy

T = TypeVar("T")

MAX_QUEUED: Final = 32
"""How many turns may be queued behind the running one."""


class TurnSlot:
    """Runs the turns of one session one after the other. `when_busy` says what becomes of a turn
    that comes while another runs: refused, queued, or run in place of all others.
    """

    def __init__(self) -> None:
        self._free = asyncio.Lock()
        self._turns: list[asyncio.Task[Any]] = []

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running or queued."""
        return bool(self._turns)

    async def run(self, work: Callable[[], Awaitable[T]], when_busy: WhenBusy) -> T | None:
        """Run a turn; None when it was cancelled. Cancelling the wait does not cancel the turn."""
        if self._turns:
            self._admit(when_busy)
        task = asyncio.ensure_future(self._in_turn(work))
        # Here and not when the task starts: of two turns in one tick, the second finds it busy.
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
        """Cancel every turn, and return the tasks that have yet to end."""
        turns = list(self._turns)
        for task in turns:
            task.cancel()
        return turns

    def _admit(self, when_busy: WhenBusy) -> None:
        match when_busy:
            case "reject":
                raise Refused(
                    "busy",
                    "the session is answering another prompt; wait for it, cancel it, or send "
                    "when_busy: enqueue",
                )
            case "enqueue":
                if len(self._turns) > MAX_QUEUED:
                    raise Refused("busy", f"the session has {MAX_QUEUED} queued prompts already")
            case "interrupt":
                self.cancel_all()
            case _:
                assert_never(when_busy)

    async def _in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._free:
            return await work()
