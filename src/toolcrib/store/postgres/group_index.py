"""What a group of commits changes in the index of calls, computed before the group is written.

The calls of the sessions that this replica writes stay in memory between their commits. They are
read when a lease is new, and again after anything went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from toolcrib.ledger.prompt_events import ModelResponded
from toolcrib.ledger.record import Record
from toolcrib.prices.table import Prices
from toolcrib.store.call_codes import OPEN_NUMBERS
from toolcrib.store.call_index import INDEXED_KINDS, PromptFacts, Spent
from toolcrib.store.postgres.call_rows import (
    ROW_FIELDS,
    call_row,
    call_values,
    keep_prompts,
    prompt_values,
)
from toolcrib.store.postgres.indexed_session import IndexedSession, starts_needed, turns_needed
from toolcrib.store.store import Commit, Lease

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection, Row

_MOST_SESSIONS: Final = 4_096
_NO_COUNT: Final = (None, None, 0, 0, 0, None)
COUNT_WIDTH: Final = len(_NO_COUNT)

_OPEN_ROWS: Final = f"""
SELECT {ROW_FIELDS} FROM sessions s JOIN calls c ON c.session = s.number
WHERE s.session_id = ANY($1::text[]) AND c.status IN ({OPEN_NUMBERS})
"""
# Only a call that has not ended can still be given what was spent within it.
_SPENT: Final = f"""
SELECT s.session_id, c.parent, sum(c.input_tokens)::bigint, sum(c.output_tokens)::bigint,
    sum(c.nanos)::bigint, max(c.prices)
FROM sessions s JOIN LATERAL (
    SELECT call_id FROM open_calls o WHERE o.session = s.number
    UNION SELECT call_id FROM calls o
    WHERE o.session = s.number AND o.status IN ({OPEN_NUMBERS}) AND o.call_id IS NOT NULL
) o ON true
JOIN calls c ON c.session = s.number AND c.parent = o.call_id
WHERE s.session_id = ANY($1::text[]) AND c.parent IS NOT NULL AND c.input_tokens IS NOT NULL
GROUP BY s.session_id, c.parent
"""
_PROMPTS: Final = """
SELECT s.session_id, p.turn, p.principal, p.transport, p.provider, p.model, p.parent
FROM unnest($1::text[], $2::bigint[]) AS w(session_id, turn)
JOIN sessions s ON s.session_id = w.session_id
JOIN prompts p ON p.session = s.number AND p.turn = w.turn
"""
STARTS: Final = """
SELECT s.session_id, r.seq, r.kind, r.at, r.call_id, p.payload, r.payload_digest, r.previous, r.hash
FROM unnest($1::text[], $2::text[]) AS w(session_id, call_id)
JOIN sessions s ON s.session_id = w.session_id
JOIN LATERAL (
    SELECT * FROM records r WHERE r.born = s.born AND r.session = s.number
        AND r.call_id = w.call_id AND r.kind = 'call.started' ORDER BY r.seq DESC LIMIT 1
) r ON true
JOIN payloads p ON p.born = r.born AND p.session = r.session AND p.seq = r.seq
"""
"""From the end of the ledger: a call that has not ended began not long ago."""


class GroupIndex:
    """The rows, counts and prompts of one group, by the places of its commits."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.calls: dict[int, IndexedSession] = {}
        """The calls of each session that the index is concerned with, by its place."""

    def count(self, place: int) -> Row:
        """What the counts of a session change by."""
        calls = self.calls.get(place)
        if calls is None:
            return _NO_COUNT
        count = calls.count
        about = (count.prompt, count.tool, count.prompts, count.calls, count.failures)
        return (*about, count.nanos)

    def rows(self) -> list[Row]:
        """The rows that changed."""
        return [
            call_values(place, row)
            for place, calls in self.calls.items()
            for row in calls.rows.values()
        ]

    @property
    def has_prompts(self) -> bool:
        """Whether `write_prompts` has something to do."""
        return any(calls.kept_prompts for calls in self.calls.values())

    async def write_prompts(self, connection: DatabaseConnection, numbers: dict[int, int]) -> None:
        """Write the prompts of the sessions that fit."""
        rows = [
            prompt_values(numbers[place], turn, facts)
            for place, calls in self.calls.items()
            if place in numbers
            for turn, facts in calls.kept_prompts.items()
        ]
        await keep_prompts(connection, rows)


class GroupIndexer:
    """Computes what groups change. Used in the store's event loop only."""

    def __init__(self, prices: Callable[[], Prices]) -> None:
        self._prices = prices
        self._sessions: dict[str, IndexedSession] = {}
        self._epoch = 0

    async def prepare(
        self, connection: DatabaseConnection, commits: Sequence[tuple[Lease, Commit]]
    ) -> GroupIndex:
        """Take the records of a group. Until `settle`, what is known of its sessions is out of
        memory: when the group fails, it is read anew.
        """
        index = GroupIndex(self._epoch)
        taken: dict[int, list[Record]] = {}
        unknown: dict[str, IndexedSession] = {}
        for place, (lease, commit) in enumerate(commits, start=1):
            records = [record for record in commit.records if record.kind in INDEXED_KINDS]
            if not records:
                continue
            calls = self._sessions.pop(lease.session_id, None)
            if calls is None or calls.fence != lease.fence:
                is_new = commit.records[0].seq == 1
                calls = IndexedSession(lease.fence, is_new=is_new)
                if not is_new:
                    unknown[lease.session_id] = calls
            index.calls[place], taken[place] = calls, records
        if unknown:
            await _read_open(connection, unknown)
        await self._read_missing(connection, index, taken, commits)
        for place, records in taken.items():
            calls = index.calls[place]
            for record in records:
                prices = self._prices() if record.kind == ModelResponded.kind else None
                calls.take(record, prices)
        return index

    def settle(
        self,
        index: GroupIndex,
        commits: Sequence[tuple[Lease, Commit]],
        numbers: dict[int, int],
    ) -> None:
        """Keep what is known of the sessions whose commits were written."""
        if index.epoch != self._epoch:
            return
        for place, calls in index.calls.items():
            if place in numbers:
                calls.clear()
                self._sessions[commits[place - 1][0].session_id] = calls
        while len(self._sessions) > _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def forget(self) -> None:
        """Read everything anew: rows were changed by something else than commits."""
        self._epoch += 1
        self._sessions.clear()

    async def _read_missing(
        self,
        connection: DatabaseConnection,
        index: GroupIndex,
        taken: dict[int, list[Record]],
        commits: Sequence[tuple[Lease, Commit]],
    ) -> None:
        turns: list[tuple[str, int]] = []
        starts: list[tuple[str, str]] = []
        by_id: dict[str, IndexedSession] = {}
        for place, records in taken.items():
            session_id, calls = commits[place - 1][0].session_id, index.calls[place]
            by_id[session_id] = calls
            turns.extend((session_id, turn) for turn in turns_needed(calls, records))
            starts.extend((session_id, call_id) for call_id in starts_needed(calls, records))
        if turns:
            rows = await connection.fetch(_PROMPTS, *zip(*turns, strict=True))
            for session_id, turn, *facts in rows:
                by_id[session_id].prompts[turn] = PromptFacts(*facts)
        if starts:
            rows = await connection.fetch(STARTS, *zip(*starts, strict=True))
            for row in rows:
                digests = (value.hex() for value in row[6:])
                by_id[row[0]].started[row[4]] = Record(*row[:6], *digests)


async def _read_open(connection: DatabaseConnection, unknown: dict[str, IndexedSession]) -> None:
    """Read the calls of sessions that have not ended."""
    names = list(unknown)
    for row in await connection.fetch(_OPEN_ROWS, names):
        opened = call_row(tuple(row))
        if opened.call_id is not None:
            unknown[opened.session_id].open[opened.call_id] = opened
    for session_id, parent, *spent in await connection.fetch(_SPENT, names):
        tokens_in, tokens_out, nanos, prices = spent
        unknown[session_id].spent[parent] = Spent(tokens_in, tokens_out or 0, nanos, prices)
