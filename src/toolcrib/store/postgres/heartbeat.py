"""The row by which other replicas know that this one is there, and its renewal.

A replica that could not renew for two thirds of its lease gives its sessions up by its own clock,
before anybody may take them; once it is back it lets go of them in the database.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolcrib._version import __version__
from toolcrib.clock import Clock
from toolcrib.store.leases import Holder, is_gone, this_process
from toolcrib.store.postgres.database import PostgresDatabase, is_connection_lost
from toolcrib.store.postgres.held_leases import HeldLeases
from toolcrib.store.postgres.side_connection import SideConnection
from toolcrib.store.shared_store import Replica

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_log = logging.getLogger("toolcrib.store")

_FORGET_SECONDS: Final = 24 * 3600.0

_NOW: Final = "(SELECT coalesce($1::double precision, toolcrib_now()))"
_RENEW: Final = f"""
UPDATE replicas r SET expires_at = {_NOW} + $3, address = $4
FROM (SELECT replica_id, expires_at FROM replicas WHERE replica_id = $2 FOR UPDATE) b
WHERE r.replica_id = b.replica_id
RETURNING r.replica_id, r.address, r.version, r.started_at, r.expires_at,
    b.expires_at <= {_NOW} AS is_late
"""
_ADD: Final = f"""
INSERT INTO replicas (replica_id, address, version, process, started_at, expires_at)
VALUES ($2, $4, $5, $6, {_NOW}, {_NOW} + $3)
RETURNING replica_id, address, version, started_at, expires_at, true AS is_late
"""
_HELD: Final = "SELECT session_id, fence FROM sessions WHERE replica_id = $1"
# Under the fence that each was given up with: what this replica has taken since is its own.
_RELEASE_ORPHANS: Final = """
UPDATE sessions s SET replica_id = NULL
FROM unnest($2::text[], $3::bigint[]) AS o(session_id, fence)
WHERE s.session_id = o.session_id AND s.fence = o.fence AND s.replica_id = $1
"""
# Locked: a transaction whose answer was lost may not have ended.
_FENCES: Final = """
SELECT session_id, replica_id, fence FROM sessions WHERE session_id = ANY($1::text[])
ORDER BY session_id FOR UPDATE
"""
_LIVE: Final = f"""
SELECT replica_id, address, version, started_at, expires_at, process FROM replicas
WHERE expires_at > {_NOW} ORDER BY started_at, replica_id
"""
_BURY: Final = "UPDATE replicas SET expires_at = 0 WHERE replica_id = ANY($1::text[])"
_FORGET: Final = f"DELETE FROM replicas WHERE expires_at < {_NOW} - $2"


@dataclass(frozen=True, slots=True)
class HeartbeatOptions:
    """How a replica shows that it is there."""

    replica_id: str
    lease_seconds: float
    clock: Clock | None
    uses_process_check: bool


class Heartbeat:
    """Renews the replica's row from its first lease, or from `join`, until it is stopped."""

    def __init__(
        self,
        database: PostgresDatabase,
        side: SideConnection,
        held: HeldLeases,
        options: HeartbeatOptions,
        on_beat: Sequence[Callable[[DatabaseConnection], Awaitable[None]]] = (),
    ) -> None:
        self._database = database
        self._side = side
        self._held = held
        self._options = options
        self._on_beat = on_beat
        self._address: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._first = asyncio.Lock()
        self._replica: Replica | None = None
        self._ahead = 0.0
        """How far the clock of the database is ahead of this machine's."""

    @property
    def now(self) -> float | None:
        """The time of the clock that was given; None for the database's."""
        return None if self._options.clock is None else self._options.clock()

    def clock(self) -> float:
        """The time of day: that of the clock that was given, else the database's as far as it is
        known here, to half the time of a round trip.
        """
        return time.time() + self._ahead if self.now is None else self.now

    async def start(self) -> Replica:
        """Have the replica's row there, and renew it from now on."""
        if self._replica is not None:
            return self._replica
        async with self._first:
            if self._replica is None:
                self._replica = await self._beat()
                self._task = asyncio.create_task(self._main())
            return self._replica

    async def join(self, address: str | None) -> Replica:
        """Say where other replicas reach this one."""
        self._address = address
        await self.start()
        self._replica = await self._beat()
        return self._replica

    async def stop(self) -> None:
        """Let go of every session and delete the row."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

        async def leave(connection: DatabaseConnection) -> None:
            me = self._options.replica_id
            await connection.execute(
                "UPDATE sessions SET replica_id = NULL, taken_from = NULL WHERE replica_id = $1", me
            )
            await connection.execute("DELETE FROM replicas WHERE replica_id = $1", me)

        try:
            await self._side.use(leave, self._database.timeouts.connect)
        except Exception as error:
            _log.error("the leases were not released: %s", self._database.explain(error))

    async def _main(self) -> None:
        interval = self._options.lease_seconds / 3
        failed = False
        while True:
            await asyncio.sleep(min(interval, 0.5) if failed else interval)
            try:
                await self._beat()
                await self._side.use(self._tidy, interval)
            except Exception as error:
                if not failed:
                    _log.error("the leases were not renewed: %s", self._database.explain(error))
                failed = True
                if is_connection_lost(error):
                    self._database.drop_idle()
            else:
                if failed:
                    _log.info("the leases are renewed again")
                failed = False

    async def _beat(self) -> Replica:
        sent_at = self._held.watch.clock()
        # Nothing that is sent later than this could still be in time.
        seconds = min(self._options.lease_seconds / 3, self._database.timeouts.connect)
        replica, is_late = await self._side.use(self._renew, seconds)
        if is_late and self._replica is not None:
            await self._side.use(self._check_held, seconds)
        self._held.watch.renew(sent_at)
        return replica

    async def _renew(self, connection: DatabaseConnection) -> tuple[Replica, bool]:
        options = self._options
        renewed = (self.now, options.replica_id, options.lease_seconds, self._address)
        asked_at = time.time()
        row = await connection.fetchrow(_RENEW, *renewed)
        if row is None:
            asked_at = time.time()
            row = await connection.fetchrow(_ADD, *renewed, __version__, str(this_process()))
        assert row is not None
        self._ahead = row["expires_at"] - options.lease_seconds - (asked_at + time.time()) / 2
        return Replica(*tuple(row)[:5]), bool(row["is_late"])

    async def _check_held(self, connection: DatabaseConnection) -> None:
        """The row had expired, so that others may have taken sessions: find out which."""
        held = self._held.all()
        rows = await connection.fetch(_HELD, self._options.replica_id)
        still = {(row[0], row[1]) for row in rows}
        for lease in held:
            if (lease.session_id, lease.fence) not in still:
                self._held.lose(lease)

    async def _tidy(self, connection: DatabaseConnection) -> None:
        """Let go of what nobody here holds, and bury replicas that are certainly dead."""
        await self._find_fences(connection)
        orphans = self._held.orphan_fences()
        if orphans:
            names, fences = list(orphans), list(orphans.values())
            await connection.execute(_RELEASE_ORPHANS, self._options.replica_id, names, fences)
            self._held.settle(orphans)
        if self._options.uses_process_check:
            await self._bury(connection)
        for work in self._on_beat:
            await work(connection)

    async def _find_fences(self, connection: DatabaseConnection) -> None:
        """Find out under which fences sessions lie here whose acquisition was not answered."""
        unknown = self._held.unknown_orphans()
        if unknown is None:
            return
        names, mark = unknown
        fences: dict[str, int | None] = dict.fromkeys(names)
        for session_id, replica_id, fence in await connection.fetch(_FENCES, names):
            fences[session_id] = fence if replica_id == self._options.replica_id else None
        self._held.name_orphans(fences, mark)

    async def _bury(self, connection: DatabaseConnection) -> None:
        rows = await connection.fetch(_LIVE, self.now)
        dead = [
            row["replica_id"]
            for row in rows
            if (process := Holder.parse(row["process"])) is not None and is_gone(process)
        ]
        if dead:
            await connection.execute(_BURY, dead)
        await connection.execute(_FORGET, self.now, _FORGET_SECONDS)


async def live_replicas(connection: DatabaseConnection, now: float | None) -> list[Replica]:
    """The replicas whose rows have not expired, oldest first."""
    return [Replica(*tuple(row)[:5]) for row in await connection.fetch(_LIVE, now)]
