"""Waiting for what comes of turns, whichever replica runs them: by hint, or a poll for all of them
at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolcrib.errors import Refused, StoreError
from toolcrib.runtime.live_session import wait_at_most
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.runtime.messages import PromptResult
    from toolcrib.store.shared_store import Hint, QueuedTurn, SharedStore

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 2.0
"""How long a turn may have ended before whoever waits for it learns so without a hint."""


@dataclass(frozen=True, slots=True)
class SettledTurn:
    """A turn that has ended, or waits."""

    turn: QueuedTurn
    result: PromptResult | None = None
    """With its answer, when it ran in this process."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    session_id: str
    until_waiting: bool
    settled: asyncio.Future[SettledTurn]


class TurnOutcomes:
    """Those who wait for turns in this process. `runs_here` tells which turns it runs itself."""

    def __init__(self, store: SharedStore, runs_here: Callable[[str], bool]) -> None:
        self._store = store
        self._runs_here = runs_here
        self._loop = asyncio.get_running_loop()
        self._waiters: dict[str, list[_Waiter]] = {}
        self._hinted: set[str] = set()
        self._look = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        self._is_closing = False
        self._unsubscribe = store.on_hint(self._hear)

    async def settled(self, turn: QueuedTurn, *, until_waiting: bool) -> SettledTurn:
        """Wait until a turn has ended or, with `until_waiting`, waits for somebody. Raises
        `Refused` when the session is deleted, or this process ends before it.
        """
        waiter = _Waiter(turn.session_id, until_waiting, self._loop.create_future())
        self._waiters.setdefault(turn.turn_id, []).append(waiter)
        try:
            # Whoever settled it before this line gave no hint that was heard here.
            with suppress(StoreError):
                await self._check([turn.turn_id])
            if self._polling is None:
                self._polling = asyncio.create_task(self._poll())
            return await waiter.settled
        finally:
            left = [each for each in self._waiters.pop(turn.turn_id, ()) if each is not waiter]
            if left:
                self._waiters[turn.turn_id] = left

    def tell(self, settled: SettledTurn) -> None:
        """A turn was settled in this process."""
        turn = settled.turn
        for waiter in self._waiters.get(turn.turn_id, ()):
            if turn.state == "ended" or waiter.until_waiting or self._is_closing:
                _set(waiter, settled)

    def drain(self) -> None:
        """Keep nobody waiting any longer for a turn that does not run here."""
        self._is_closing = True
        self._hinted.update(turn_id for turn_id in self._waiters)
        self._look.set()

    def look_again(self, turn_id: str) -> None:
        """This process runs the turn no more."""
        self._hinted.add(turn_id)
        self._look.set()

    async def close(self) -> None:
        """Hear nothing more."""
        self._unsubscribe()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    def _hear(self, hint: Hint) -> None:
        if hint.topic == "turn":
            # A loop that is closed hears nothing any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hinted_session, hint.subject)

    def _hinted_session(self, session_id: str) -> None:
        turn_ids = [
            turn_id
            for turn_id, waiters in self._waiters.items()
            if any(waiter.session_id == session_id for waiter in waiters)
        ]
        if turn_ids:
            self._hinted.update(turn_ids)
            self._look.set()

    async def _poll(self) -> None:
        next_at = 0.0
        while self._waiters:
            now = self._loop.time()
            if now >= next_at:
                next_at = now + POLL_SECONDS * random.uniform(0.5, 1.0)
                self._hinted.update(self._waiters)
            turn_ids, self._hinted = self._hinted & self._waiters.keys(), set()
            self._look.clear()
            try:
                if turn_ids:
                    await self._check(turn_ids)
            except Exception as error:
                logger.warning("turns that are waited for cannot be read: %s", error)
            await wait_at_most(self._look, max(next_at - self._loop.time(), 0.0))
        self._polling = None

    async def _check(self, turn_ids: Collection[str]) -> None:
        turns = await ask_store(self._store, lambda: self._store.turns(turn_ids=turn_ids))
        found = {turn.turn_id: turn for turn in turns}
        for turn_id in turn_ids:
            turn = found.get(turn_id)
            waiters = list(self._waiters.get(turn_id, ()))
            is_over = turn is not None and await self._is_over(turn, waiters)
            for waiter in waiters:
                if turn is None:
                    _refuse(waiter, Refused("not_found", "there is no such session any more"))
                elif turn.state == "ended" or (
                    is_over and (waiter.until_waiting or self._is_closing)
                ):
                    _set(waiter, SettledTurn(turn))
                elif self._is_closing and not self._runs_here(turn_id):
                    _refuse(waiter, _goes_on())

    async def _is_over(self, turn: QueuedTurn, waiters: list[_Waiter]) -> bool:
        """Whether nothing happens before somebody decides: a turn that waits for a request which
        was decided is about to go on.
        """
        if turn.state != "waiting" or turn.cancelled_by is not None:
            return False
        if self._is_closing or not any(waiter.until_waiting for waiter in waiters):
            return True

        def is_pending(approval_id: str) -> bool:
            filed = self._store.approval(approval_id)
            return filed is not None and filed.state == "pending"

        return await ask_store(self._store, lambda: all(map(is_pending, turn.pending)))


def _set(waiter: _Waiter, settled: SettledTurn) -> None:
    if not waiter.settled.done():
        waiter.settled.set_result(settled)


def _refuse(waiter: _Waiter, refused: Refused) -> None:
    if not waiter.settled.done():
        waiter.settled.set_exception(refused)


def _goes_on() -> Refused:
    return Refused(
        "closing",
        "this process ends; the prompt was accepted and goes on in another one: ask for it with "
        "prompt.resume, or send it again under the same idempotency key",
    )
