"""Commits of sessions whose rows somebody keeps locked: they wait aside, and nobody waits for them
but their own session.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from toolcrib.store.postgres.database import is_locked_out
from toolcrib.store.store import Commit, CommitSource

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.25
# A session that is no more is not locked: its commit finds that its lease is lost.
_LOCKED: Final = """
WITH free AS (
    SELECT session_id FROM sessions WHERE session_id = ANY($1::text[])
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT s.session_id FROM sessions s WHERE s.session_id = ANY($1::text[])
    AND NOT EXISTS (SELECT FROM free f WHERE f.session_id = s.session_id)
"""


async def locked_sessions(connection: DatabaseConnection, session_ids: list[str]) -> set[str]:
    """Those whose rows somebody has locked, without waiting for any; all of them when the table
    itself is locked.
    """
    try:
        return {row[0] for row in await connection.fetch(_LOCKED, session_ids)}
    except Exception as error:
        if is_locked_out(error):
            return set(session_ids)
        raise


@dataclass(slots=True)
class LockedCommit:
    """A commit that waits for a lock, and the sources of the same session that come after it."""

    source: CommitSource
    commit: Commit
    deadline: float
    """When it fails; by the monotonic clock, like `again_at`."""
    again_at: float = 0.0
    """When it is tried again."""
    pause: float = _FIRST_PAUSE
    behind: dict[int, CommitSource] = field(default_factory=dict[int, CommitSource])

    def rest(self) -> None:
        """Wait a little before the next try, and longer after each."""
        self.again_at = time.monotonic() + self.pause
        self.pause = min(self.pause * 2, _LONGEST_PAUSE)


@dataclass(slots=True, eq=False)
class Barrier:
    """Done when everything that was scheduled before it is settled, of one session or of all."""

    done: asyncio.Future[None]
    session_id: str | None
    waits_for: set[str] = field(default_factory=set[str])
    """The sessions whose commits wait aside."""

    def settle(self) -> bool:
        """Tell whoever waits, unless it waits for something still."""
        if self.waits_for:
            return False
        if not self.done.done():
            self.done.set_result(None)
        return True
