"""What happens to the replicas of a chaos run, and what they held when it happened."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import asyncpg

from tests.chaos.link import Link
from tests.chaos.replicas import Replicas, ServedReplica
from tests.servers.postgres import PostgresServer

DisturbanceKind = Literal["kill", "pause", "cut", "restart"]
_HELD = """
SELECT s.session_id, s.fence, r.expires_at FROM sessions s JOIN replicas r USING (replica_id)
WHERE r.address = $1 AND r.expires_at > extract(epoch FROM clock_timestamp())
  AND EXISTS (SELECT 1 FROM turns t WHERE t.session_id = s.session_id AND t.state = 'running')
"""


@dataclass(frozen=True, slots=True)
class Held:
    """The session of a running turn that a replica had when it was disturbed."""

    session_id: str
    fence: int
    renewed_at: float
    """When its lease was last renewed."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One thing that went wrong."""

    kind: DisturbanceKind
    at: float
    replica: str | None = None
    """The replica and its life, `b#3`; None for the database."""
    seconds: float = 0.0
    """How long it lasted; 0 for a kill."""
    held: tuple[Held, ...] = ()


@dataclass(slots=True)
class DisturbanceLog:
    """All that went wrong, on purpose and otherwise."""

    all: list[Disturbance] = field(default_factory=list[Disturbance])
    exits: list[str] = field(default_factory=list[str])
    """Replicas that ended by themselves, with their last words."""

    def count(self, kind: DisturbanceKind) -> int:
        return sum(each.kind == kind for each in self.all)


class Troublemaker:
    """Kills, pauses and cuts off replicas, and restarts their database once."""

    def __init__(
        self,
        replicas: Replicas,
        database: PostgresServer,
        store: str,
        link: Link,
        *,
        lease_seconds: float,
        rng: random.Random,
        pace: tuple[float, float],
        pauses: float = 0.25,
    ) -> None:
        self._replicas = replicas
        self._database = database
        self._store = store
        self._link = link
        self._lease = lease_seconds
        self._rng = rng
        self._pace = pace
        self._pauses = pauses
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_away = False
        self.log = DisturbanceLog()

    async def work(self, count: int, on_each: Callable[[int], None] | None = None) -> None:
        """Disturb `count` times. The database is restarted half-way, and the last replica is cut
        off from it at a quarter and at three quarters.
        """
        guard = asyncio.create_task(self._revive())
        try:
            for number in range(count):
                await asyncio.sleep(self._rng.uniform(*self._pace))
                if number == count // 2:
                    await self._restart()
                elif number in (count // 4, 3 * count // 4):
                    self._begin(self._cut())
                else:
                    await self._hit()
                if on_each is not None:
                    on_each(number + 1)
            await asyncio.gather(*self._tasks)
        finally:
            guard.cancel()
            await asyncio.gather(guard, return_exceptions=True)

    async def calm(self) -> None:
        """Let every replica run and serve."""
        self._link.mend()
        for replica in self._replicas.all:
            replica.go_on()
            if not replica.is_running:
                replica.start()
            await replica.until_serving()

    async def held_by(self, replica: ServedReplica) -> tuple[Held, ...]:
        """The running turns that a replica has by now; none when the database does not answer."""
        try:
            connection: Any = await asyncpg.connect(self._store, timeout=2)
        except (OSError, asyncpg.PostgresError, TimeoutError):
            return ()
        try:
            rows = await connection.fetch(_HELD, replica.url)
        finally:
            await connection.close()
        return tuple(Held(row[0], row[1], row[2] - self._lease) for row in rows)

    async def _hit(self) -> None:
        """Kill a replica that serves, or let it stand still for longer than its lease."""
        while True:
            serving = [each for each in self._replicas.all if each.is_serving()]
            if serving:
                break
            await asyncio.sleep(0.1)
        replica = self._rng.choice(serving)
        paused = sum(each.is_paused for each in self._replicas.all)
        held = await self.held_by(replica)
        name = f"{replica.name}#{replica.life}"
        if self._rng.random() < self._pauses and paused < len(self._replicas.all) - 1:
            seconds = self._lease * self._rng.uniform(1.2, 2.0)
            replica.pause()
            self.log.all.append(Disturbance("pause", time.time(), name, seconds, held))
            self._begin(self._resume(replica, replica.life, seconds))
        else:
            replica.kill()
            self.log.all.append(Disturbance("kill", time.time(), name, 0.0, held))
            await replica.until_gone()
            self._begin(self._start(replica, self._rng.uniform(0.1, 0.8)))

    async def _cut(self) -> None:
        """Cut the last replica off from the database, for longer than its lease."""
        replica = self._replicas.all[-1]
        held = await self.held_by(replica)
        seconds = self._lease * self._rng.uniform(1.3, 2.0)
        name = f"{replica.name}#{replica.life}"
        self._link.cut()
        self.log.all.append(Disturbance("cut", time.time(), name, seconds, held))
        await asyncio.sleep(seconds)
        self._link.mend()

    async def _restart(self) -> None:
        """Crash the database and start it again."""
        at = time.time()
        self._is_away = True
        await asyncio.to_thread(self._database.stop, "immediate")
        await asyncio.sleep(self._rng.uniform(0.2, 1.0))
        await asyncio.to_thread(self._database.start)
        self._is_away = False
        self.log.all.append(Disturbance("restart", at, None, time.time() - at))

    async def _resume(self, replica: ServedReplica, life: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if replica.life == life:
            replica.go_on()

    async def _start(self, replica: ServedReplica, after: float) -> None:
        await asyncio.sleep(after)
        if not replica.is_running:
            replica.start()

    async def _revive(self) -> None:
        """Start replicas that ended by themselves, as a supervisor does, and note it."""
        while True:
            await asyncio.sleep(1.0)
            for replica in self._replicas.all:
                if replica.is_running or self._is_away:
                    continue
                life = replica.life
                await asyncio.sleep(1.0)
                if replica.life == life and not replica.is_running:
                    words = replica.last_words(400)
                    self.log.exits.append(f"{replica.name}#{life}: {words}")
                    replica.start()

    def _begin(self, work: Any) -> None:
        awaited: Awaitable[None] = work
        task = asyncio.ensure_future(awaited)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
