"""Hints between replicas by LISTEN and NOTIFY: joined, and never part of a commit.

NOTIFY takes a lock of the whole database when its transaction commits, so a replica sends at most
one in 50 ms, whatever happens in it. Whoever listens reads the tables again; a hint that is lost
costs the time until the next poll.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, get_args

from toolcrib.store.postgres.database import PostgresDatabase
from toolcrib.store.postgres.side_connection import SideConnection
from toolcrib.store.shared_store import Hint, HintTopic

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_log = logging.getLogger("toolcrib.store")

CHANNEL: Final = "toolcrib"
_PAUSE_SECONDS: Final = 0.05
_LONGEST: Final = 7_500
"""Characters of one notification; PostgreSQL takes fewer than 8,000 bytes."""
_TOPICS: Final = frozenset(get_args(HintTopic))


class HintExchange:
    """Sends and hears hints, in the store's event loop; its methods may be called by any thread."""

    def __init__(
        self,
        database: PostgresDatabase,
        loop: asyncio.AbstractEventLoop,
        replica_id: str,
        *,
        uses_database: bool,
    ) -> None:
        self._database = database
        self._loop = loop
        self._replica_id = replica_id
        self._uses_database = uses_database
        self._side = SideConnection(database, self._listen)
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Hint], None]] = []
        self._waiting: dict[Hint, None] = {}
        self._sender: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self.notifications = 0
        """How many were sent, for whoever measures."""

    def send(self, hint: Hint) -> None:
        """Send a hint soon."""
        with self._lock:
            is_first = not self._waiting
            self._waiting[hint] = None
        if is_first:
            self._loop.call_soon_threadsafe(self._start_sender)

    def subscribe(self, listener: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `listener` for every hint, until the returned function is called."""
        with self._lock:
            self._listeners.append(listener)
        self._loop.call_soon_threadsafe(self._start_watch)

        def unsubscribe() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    async def close(self) -> None:
        """Send what waits, and hear nothing more."""
        if self._sender is not None:
            await asyncio.gather(self._sender, return_exceptions=True)
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._side.close()

    def _start_sender(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = self._loop.create_task(self._send_all())

    def _start_watch(self) -> None:
        if self._watch is None and self._uses_database:
            self._watch = self._loop.create_task(self._stay_connected())

    async def _send_all(self) -> None:
        while True:
            with self._lock:
                hints, self._waiting = self._waiting, {}
            if not hints:
                return
            self._hear(hints)
            if self._uses_database:
                await self._notify(hints)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _notify(self, hints: Iterable[Hint]) -> None:
        messages = _packed(self._replica_id, hints)

        async def notify(connection: DatabaseConnection) -> None:
            await connection.execute(
                "SELECT pg_notify($1, m) FROM unnest($2::text[]) m", CHANNEL, messages
            )

        try:
            await self._side.use(notify, self._database.timeouts.connect)
            self.notifications += len(messages)
        except Exception as error:
            # Only a hint: the others look by themselves a little later.
            _log.debug("hints were not sent: %s", self._database.explain(error))

    async def _stay_connected(self) -> None:
        """Listen, and look now and then whether the connection still is there."""

        async def look(connection: DatabaseConnection) -> None:
            await connection.execute("SELECT 1")

        while True:
            try:
                await self._side.use(look, self._database.timeouts.connect)
                pause = 15.0
            except Exception as error:
                _log.debug("hints are not heard: %s", self._database.explain(error))
                pause = 0.5
            await asyncio.sleep(pause)

    async def _listen(self, connection: DatabaseConnection) -> None:
        await connection.add_listener(CHANNEL, self._heard)
        connection.add_termination_listener(self._lost)

    def _lost(self, _: Any) -> None:
        """Connect again at once, not when the next look is due."""
        watch = self._watch
        if watch is not None and not watch.done() and self._loop.is_running():
            watch.cancel()
            self._watch = self._loop.create_task(self._stay_connected())

    def _heard(self, _connection: Any, _pid: int, _channel: str, message: object) -> None:
        sender, hints = _unpacked(str(message))
        if sender != self._replica_id:
            self._hear(hints)

    def _hear(self, hints: Iterable[Hint]) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for hint in hints:
            for listener in listeners:
                try:
                    listener(hint)
                except Exception:
                    _log.exception("a listener to hints failed")


def _packed(sender: str, hints: Iterable[Hint]) -> list[str]:
    """Hints as few messages, none of them too long."""
    messages: list[str] = []
    items: list[tuple[str, str]] = []
    size = 0
    for hint in hints:
        item = (hint.topic, hint.subject)
        length = len(json.dumps(item)) + 1
        if items and size + length > _LONGEST:
            messages.append(json.dumps([sender, items]))
            items, size = [], 0
        if length <= _LONGEST:
            items.append(item)
            size += length
    if items:
        messages.append(json.dumps([sender, items]))
    return messages


def _unpacked(message: str) -> tuple[str, list[Hint]]:
    """The hints of a message; none of one that somebody else wrote."""
    try:
        sender, items = json.loads(message)
        return str(sender), [Hint(topic, str(name)) for topic, name in items if topic in _TOPICS]
    except (ValueError, TypeError):
        return "", []
