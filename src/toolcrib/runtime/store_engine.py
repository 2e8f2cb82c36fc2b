"""The shared store itself as the engine: turns are claimed where they are queued."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import UsageError
from toolcrib.runtime.live_session import wait_at_most
from toolcrib.store.shared_store import is_shared
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.store.shared_store import ClaimedTurn, Hint, SharedStore

logger = logging.getLogger(__name__)

DEFAULT_MAX_TURNS: Final = 16
_STOP_SECONDS: Final = 5.0
"""How long a claim is waited for that is on its way to a store which does not answer."""


class StoreEngine:
    """Claims turns that are due, up to `max_turns` at once: when a hint says so, and otherwise
    every `poll_seconds` at most.

    Without `takes_turns`, or a model, only those of sessions that are open in this process, which
    no other could take up: it runs them where somebody uses the session, and else lets the session
    go.
    """

    def __init__(
        self,
        *,
        max_turns: int = DEFAULT_MAX_TURNS,
        poll_seconds: float = 2.0,
        takes_turns: bool = True,
    ) -> None:
        if max_turns < 1:
            raise UsageError("max_turns must be 1 or more")
        if poll_seconds <= 0:
            raise UsageError("poll_seconds must be more than 0")
        self._max_turns = max_turns
        self._poll_seconds = poll_seconds
        self._takes_turns = takes_turns
        self._look = asyncio.Event()
        self._is_stopping = False
        self._claiming: asyncio.Task[None] | None = None
        self._runs: set[asyncio.Task[Any]] = set()
        self._unsubscribe: Callable[[], None] | None = None

    async def start(self, runtime: Runtime) -> None:
        """Begin to claim turns."""
        store = runtime.store
        if not is_shared(store):
            raise UsageError(
                "an engine drives the turns of a store that several processes share; serve with "
                "--store postgresql://..., or leave out the engine"
            )
        loop = asyncio.get_running_loop()

        def hear(hint: Hint) -> None:
            if hint.topic in ("turn", "decision", "cancel"):
                # A loop that is closed hears nothing any more.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._look.set)

        self._unsubscribe = store.on_hint(hear)
        self._claiming = asyncio.create_task(self._claim_all(runtime, store))

    async def wake(self, session_id: str) -> None:
        """Look at once."""
        self._look.set()

    async def stop(self) -> None:
        """Claim no more turns. Those that run go on."""
        self._is_stopping = True
        self._look.set()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._claiming is not None:
            # Not cancelled: what is being claimed would be nobody's.
            await asyncio.wait([self._claiming], timeout=_STOP_SECONDS)

    async def close(self) -> None:
        """Wait for the turns that ran here."""
        await self.stop()
        if self._runs:
            await asyncio.wait(self._runs)

    async def _claim_all(self, runtime: Runtime, store: SharedStore) -> None:
        pause = 0.0
        while not self._is_stopping:
            self._look.clear()
            free = self._max_turns - len(self._runs)
            claimed: Sequence[ClaimedTurn] = ()
            if free > 0:
                try:
                    claimed = await self._claim(runtime, store, free)
                    pause = self._poll_seconds
                except Exception as error:
                    # Whatever it is: who stops looking, loses turns.
                    logger.warning("the store cannot be asked for turns that are due: %s", error)
                    pause = self._poll_seconds
            for each in claimed:
                self._start(runtime, each)
            if len(claimed) < free or free <= 0:
                await wait_at_most(self._look, pause * random.uniform(0.5, 1.0))

    async def _claim(
        self, runtime: Runtime, store: SharedStore, free: int
    ) -> Sequence[ClaimedTurn]:
        only_open = self._leaves_to_others(runtime)
        # A command that only reads takes no part in the store, which may be a standby.
        if only_open and not runtime.has_open_sessions:
            return ()
        return await ask_store(store, lambda: store.claim_turns(free, only_open=only_open))

    def _leaves_to_others(self, runtime: Runtime) -> bool:
        return not self._takes_turns or runtime.config.adapter is None

    def _start(self, runtime: Runtime, claimed: ClaimedTurn) -> None:
        # A runtime that is closing by now hands it back.
        task = asyncio.create_task(
            runtime.run_claimed(claimed, leaves_idle=self._leaves_to_others(runtime))
        )
        self._runs.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._runs.discard(task)
        self._look.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a turn ended with an error", exc_info=error)
