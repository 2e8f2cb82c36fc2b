"""Where followed sessions are open, and how far their ledgers go: one query for all of them, when a
hint says that something changed and about every second without one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from toolcrib.runtime.live_session import wait_at_most
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.store.shared_store import Hint, SessionPlace, SharedStore

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often the store is asked where the followed sessions are, on average."""
_PAUSE_SECONDS: Final = 0.02
"""How long a look waits for others to look with."""


class WatchedPlace:
    """The place of one session, for one follower."""

    def __init__(self, watch: PlaceWatch, session_id: str, on_change: Callable[[], None]) -> None:
        self.session_id = session_id
        self.place: SessionPlace | None = None
        """None until the first look, and when there is no such session."""
        self.looks = 0
        """How often the store was looked at."""
        self.is_restless = False
        """Whether the follower hears of every look, rather than of changes alone."""
        self._watch = watch
        self._on_change = on_change

    def seen(self, place: SessionPlace | None, *, is_hinted: bool) -> None:
        """Take what a look has found."""
        is_news = is_hinted or self.is_restless or not self.looks or place != self.place
        self.place, self.looks = place, self.looks + 1
        if is_news:
            self._on_change()

    def close(self) -> None:
        """Watch it no longer."""
        self._watch.forget(self)


class PlaceWatch:
    """Looks for the followers of one runtime, in its event loop, while there are any."""

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, set[WatchedPlace]] = {}
        self._due: set[str] = set()
        """The sessions to look for at once."""
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self.looks = 0
        """How often the store was asked, for whoever measures."""

    def watch(self, session_id: str, on_change: Callable[[], None]) -> WatchedPlace:
        """Call `on_change` soon, and whenever the place of a session has changed. The caller closes
        it.
        """
        watched = WatchedPlace(self, session_id, on_change)
        self._watched.setdefault(session_id, set()).add(watched)
        if self._unsubscribe is None:
            self._unsubscribe = self._store.on_hint(self._on_hint)
        self._look_soon(session_id)
        if self._task is None:
            self._task = self._loop.create_task(self._look_again_and_again())
        return watched

    def forget(self, watched: WatchedPlace) -> None:
        """Watch a place no longer; the last one ends the looking."""
        followers = self._watched.get(watched.session_id)
        if followers is None:
            return
        followers.discard(watched)
        if not followers:
            del self._watched[watched.session_id]
        if not self._watched and self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """Look and listen no more."""
        task, self._task = self._task, None
        self._watched.clear()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _on_hint(self, hint: Hint) -> None:
        """Called in a thread of the store."""
        if hint.topic == "events" and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._look_soon, hint.subject)

    def _look_soon(self, session_id: str) -> None:
        if session_id in self._watched:
            self._due.add(session_id)
            self._is_due.set()

    async def _look_again_and_again(self) -> None:
        next_look = self._loop.time()
        while True:
            # Replicas that started together do not ask together.
            if self._loop.time() >= next_look:
                next_look = self._loop.time() + LOOK_SECONDS * random.uniform(0.75, 1.25)
                await self._look(list(self._watched))
            else:
                await self._look(list(self._due))
            await asyncio.sleep(_PAUSE_SECONDS)
            await wait_at_most(self._is_due, max(0.0, next_look - self._loop.time()))

    async def _look(self, session_ids: Collection[str]) -> None:
        hinted, self._due = self._due, set[str]()
        self._is_due.clear()
        self.looks += 1
        try:
            places = await ask_store(self._store, self._store.places, session_ids)
        except Exception:
            _log.warning("where followed sessions are could not be read; trying again")
            self._due |= hinted
            return
        for session_id in session_ids:
            for watched in tuple(self._watched.get(session_id, ())):
                # One that came during the query is looked at in its own turn.
                if watched.looks or session_id in hinted:
                    watched.seen(places.get(session_id), is_hinted=session_id in hinted)
