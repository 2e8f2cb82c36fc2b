"""Turns on a queue that somebody else runs: what is due is handed on, until it is not due any more.

The rows of turns in the store are the truth. A session is sent to the queue by the process that
made its turn due, and again by every process that looks for turns which nobody advances. So nothing
is lost when a process dies in between, or while the queue is away; and a session that is sent twice
does no harm, because `Runtime.advance` may run any number of times.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from toolcrib.engines.due_turns import DueTurns
from toolcrib.errors import StoreError, UsageError
from toolcrib.store.shared_store import Hint, SharedStore, is_shared
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

SWEEP_LIMIT: Final = 1000
"""How many turns one look at the store finds; those that are due longest come first."""
_SENDERS: Final = 8
_HINT_JITTER_SECONDS: Final = 0.02
"""Every process hears a hint. Those that look a little later mostly find the turn taken up."""


class QueueEngine:
    """Sends the sessions whose turns are due to a queue; its workers call `Runtime.advance` for
    each.

    `send` puts one session id on the queue. One that raises is called again when the turn is found
    the next time, at most `poll_seconds` later.
    """

    def __init__(
        self, send: Callable[[str], Awaitable[object]], *, poll_seconds: float = 2.0
    ) -> None:
        if poll_seconds <= 0:
            raise UsageError("poll_seconds must be more than 0")
        self._send = send
        self._poll_seconds = poll_seconds
        self._due = DueTurns()
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._is_waiting: set[str] = set()
        self._look = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        self._unsubscribe: Callable[[], None] | None = None

    async def start(self, runtime: Runtime) -> None:
        """Begin to look for turns that are due."""
        store = runtime.store
        if not is_shared(store):
            raise UsageError(
                "an engine drives the turns of a store that several processes share; serve with "
                "--store postgresql://..., or leave out the engine"
            )
        loop = asyncio.get_running_loop()

        def hear(hint: Hint) -> None:
            if hint.topic in ("turn", "decision", "cancel"):
                loop.call_soon_threadsafe(self._look.set)

        self._unsubscribe = store.on_hint(hear)
        self._tasks = [
            asyncio.create_task(self._sweep(store)),
            *(asyncio.create_task(self._send_all()) for _ in range(_SENDERS)),
        ]

    async def wake(self, session_id: str) -> None:
        """Have the session sent soon. What the queue does not hear is found in the store."""
        self._put(session_id)

    async def stop(self) -> None:
        """Look no more for turns: this process is about to end."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def close(self) -> None:
        """Let go of everything."""
        await self.stop()

    def _put(self, session_id: str) -> None:
        if session_id not in self._is_waiting:
            self._is_waiting.add(session_id)
            self._waiting.put_nowait(session_id)

    async def _send_all(self) -> None:
        while True:
            session_id = await self._waiting.get()
            try:
                await self._send(session_id)
            except Exception as error:
                self._due.forget(session_id)
                logger.warning(
                    "the turn of the session %s was not taken by the queue and is sent again: %s",
                    session_id,
                    error,
                )
            finally:
                self._is_waiting.discard(session_id)

    async def _sweep(self, store: SharedStore) -> None:
        """Send every session with a turn that is due, each a while after the last time that this
        did not help.
        """
        while True:
            try:
                sessions = await ask_store(store, lambda: store.due_turns(SWEEP_LIMIT))
            except StoreError as error:
                logger.warning("the store cannot be asked for turns that are due: %s", error)
                sessions = ()
            except Exception:
                # Whatever it is: who stops looking, loses turns.
                logger.exception("the store cannot be asked for turns that are due")
                sessions = ()
            for session_id in self._due.next(sessions, time.monotonic()):
                self._put(session_id)
            pause = self._poll_seconds * random.uniform(0.5, 1.0)
            if await is_set_within(self._look, pause):
                await asyncio.sleep(random.uniform(0, _HINT_JITTER_SECONDS))
                self._look.clear()


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event came before the time was over."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
