"""The world outside of Toolcrib: a database of its own, in which tools leave their effects.

It knows nothing of ledgers and leases. Half of the sessions find a world that keeps idempotency
keys under a unique constraint, as payment services do; the other half one that does as it is told.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

KEYED: Final = "keyed"
PLAIN: Final = "plain"
"""What the id of a session begins with says which world it finds."""

TABLES: Final = """
CREATE TABLE begun (
    session_id text NOT NULL, call_id text NOT NULL, tool text NOT NULL, replica text NOT NULL,
    at double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp())
);
CREATE TABLE effects (
    session_id text NOT NULL, call_id text NOT NULL, tool text NOT NULL, replica text NOT NULL,
    kept_key text UNIQUE,
    at double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp())
);
CREATE INDEX effects_by_call ON effects (session_id, call_id);
"""
_BEGIN: Final = "INSERT INTO begun (session_id, call_id, tool, replica) VALUES ($1, $2, $3, $4)"
_ACT: Final = """
INSERT INTO effects (session_id, call_id, tool, replica, kept_key) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (kept_key) DO NOTHING
"""
_EFFECTS: Final = "SELECT session_id, call_id, tool, replica, at FROM effects ORDER BY at"
_BEGUN: Final = "SELECT session_id, call_id, tool, replica, at FROM begun ORDER BY at"


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that a tool did, or began to do."""

    session_id: str
    call_id: str
    tool: str
    replica: str
    """Which replica, and which life of it: `b#3`."""
    at: float

    @property
    def call(self) -> tuple[str, str]:
        return self.session_id, self.call_id


class World:
    """A connection to the world. Tools have theirs, people and the examination have another."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None
        self._opening = asyncio.Lock()

    async def make(self) -> None:
        """Make its tables."""
        await (await self._connected()).execute(TABLES)

    async def begin(self, session_id: str, call_id: str, tool: str, replica: str) -> None:
        """Note that a handler runs; nothing has happened yet."""
        await (await self._connected()).execute(_BEGIN, session_id, call_id, tool, replica)

    async def act(
        self, session_id: str, call_id: str, tool: str, replica: str, key: str | None
    ) -> None:
        """Let it happen: with a key once and never again, without one every time."""
        await (await self._connected()).execute(_ACT, session_id, call_id, tool, replica, key)

    async def has_happened(self, session_id: str, call_id: str) -> bool:
        """What a person sees who looks."""
        found = await (await self._connected()).fetchval(
            "SELECT 1 FROM effects WHERE session_id = $1 AND call_id = $2 LIMIT 1",
            session_id,
            call_id,
        )
        return found is not None

    async def effects(self) -> list[Effect]:
        """All that has happened, in order."""
        return [Effect(*row) for row in await (await self._connected()).fetch(_EFFECTS)]

    async def begun(self) -> list[Effect]:
        """Every run of a handler, in order."""
        return [Effect(*row) for row in await (await self._connected()).fetch(_BEGUN)]

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.close()

    async def _connected(self) -> Any:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(self._url, min_size=1, max_size=3)
        return self._pool
