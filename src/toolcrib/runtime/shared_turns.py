"""The turns of a runtime on a store that replicas share: those that it accepts, those that it runs,
and the engine that brings them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import Refused, SessionNotFound
from toolcrib.runtime.claimed_turns import ClaimedTurns
from toolcrib.runtime.queued_turns import QueuedTurns
from toolcrib.runtime.store_engine import DEFAULT_MAX_TURNS, StoreEngine
from toolcrib.runtime.turn_messages import read_outcome
from toolcrib.runtime.turn_outcomes import TurnOutcomes
from toolcrib.runtime.turn_progress import Advanced
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.runtime.turn_engine import TurnEngine
    from toolcrib.store.shared_store import QueuedTurn, SharedStore


_UNUSED_SECONDS: Final = 0.2
"""A session that was used less long ago may have a request on its way to it."""


class SharedTurns:
    """What a runtime has beside its sessions when its store is shared."""

    def __init__(
        self, store: SharedStore, sessions: LiveSessions, config: Callable[[], RuntimeConfig]
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._leaving: asyncio.Task[None] | None = None
        self._is_left = False
        self._engines: list[TurnEngine] = []
        self._runtime: Runtime | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.claimed = ClaimedTurns(store, sessions, config)
        self._outcomes = TurnOutcomes(store, self.claimed.runs)
        self.claimed.outcomes = self._outcomes
        self.queued = QueuedTurns(store, sessions, self._outcomes, self.wake)

    async def start(self, runtime: Runtime) -> None:
        """Begin to take up turns."""
        self._runtime, config = runtime, runtime.config
        # Whatever drives the turns: nobody else can take up one whose session is open here.
        takes_turns = config.takes_turns and config.engine is None
        most = config.max_turns if takes_turns else max(config.max_turns, 4 * DEFAULT_MAX_TURNS)
        own = StoreEngine(max_turns=most, takes_turns=takes_turns)
        self._engines = [own] if config.engine is None else [own, config.engine]
        for engine in self._engines:
            await engine.start(runtime)

    async def wake(self, session_id: str) -> None:
        """Have the turn of a session taken up soon."""
        for engine in self._engines:
            await engine.wake(session_id)

    async def advance(self, session_id: str) -> Advanced:
        """`Runtime.advance` on a shared store."""
        assert self._runtime is not None, "it was started"
        claimed = await ask_store(
            self._store, lambda: self._store.claim_turns(1, session_id=session_id)
        )
        if not claimed:
            return await self._as_it_is(session_id)
        # Cancelling the wait does not cancel the turn.
        task = asyncio.create_task(self._runtime.run_claimed(claimed[0]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        advanced = await asyncio.shield(task)
        if advanced.status in ("waiting", "elsewhere"):
            return advanced
        left = await self._turns(session_id)
        return Advanced(session_id, advanced.status, None, advanced.result, has_more=bool(left))

    async def drain(self, seconds: float) -> None:
        """Take up no more turns, let nobody wait here for those of others, and hand over what runs
        within `seconds`. From now until `leave` others have each session as soon as nobody uses it
        here, however long something runs in another one.
        """
        self.queued.is_closing = True
        self._leaving = asyncio.create_task(self._leave_unused())
        for engine in self._engines:
            await engine.stop()
        self._outcomes.drain()
        await self.claimed.hand_over(seconds)

    async def leave(self) -> None:
        """Let go of no more sessions: all are closed now."""
        self._is_left = True
        if self._leaving is not None:
            await self._leaving

    async def _leave_unused(self) -> None:
        while not self._is_left:
            await self._sessions.let_go_unused(_UNUSED_SECONDS)
            await asyncio.sleep(_UNUSED_SECONDS / 4)

    async def close(self) -> None:
        """Let go of everything, once the sessions are closed."""
        for engine in self._engines:
            await engine.close()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.claimed.close()
        await self._outcomes.close()

    async def _as_it_is(self, session_id: str) -> Advanced:
        """The turn of a session that nobody here can take up."""
        left = await self._turns(session_id)
        if not left:
            await self._check_session(session_id)
            return Advanced(session_id, "idle")
        turn = left[0]
        if turn.state != "waiting" or turn.outcome is None:
            return Advanced(session_id, "elsewhere")
        return Advanced(session_id, "waiting", turn.wake_at, read_outcome(turn.outcome).result)

    async def _check_session(self, session_id: str) -> None:
        try:
            await ask_store(self._store, self._store.session, session_id)
        except SessionNotFound as error:
            raise Refused("not_found", str(error)) from None

    async def _turns(self, session_id: str) -> list[QueuedTurn]:
        return await ask_store(self._store, lambda: self._store.turns(session_id=session_id))
