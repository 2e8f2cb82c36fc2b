"""A shared store of which an engine sees nothing but the turns that are due, and its hints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from toolcrib.errors import StoreError
from toolcrib.runtime.runtime import Runtime
from toolcrib.runtime.turn_progress import Advanced, AdvancedStatus
from toolcrib.store.shared_store import Hint


class PlayedStore:
    """`due` are the sessions with a turn that is due."""

    is_shared = True
    is_durable = True

    def __init__(self, *due: str) -> None:
        self.due = list(due)
        self.is_away = False
        self.listeners: list[Callable[[Hint], None]] = []

    def due_turns(self, limit: int) -> Sequence[str]:
        if self.is_away:
            raise StoreError("the database is away")
        return self.due[:limit]

    def on_hint(self, listener: Callable[[Hint], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)


class PlayedRuntime:
    """Ends the turn of each session that it is asked to advance."""

    def __init__(self, store: PlayedStore) -> None:
        self.store = store
        self.config = type("Config", (), {"drain_seconds": 0.0})()
        self.advanced: asyncio.Queue[str] = asyncio.Queue()
        self.cancelled: asyncio.Queue[str] = asyncio.Queue()
        self.status: AdvancedStatus = "answered"

    async def advance(self, session_id: str) -> Advanced:
        if session_id in self.store.due:
            self.store.due.remove(session_id)
        await self.advanced.put(session_id)
        return Advanced(session_id, self.status)

    async def cancel_prompt(self, session_id: str) -> None:
        await self.cancelled.put(session_id)

    @property
    def as_runtime(self) -> Runtime:
        return cast("Runtime", self)
