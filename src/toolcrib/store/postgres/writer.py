"""The one writer: it commits whatever waits together, in one transaction, and knows after a lost
connection what was committed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from toolcrib.errors import LeaseLost, StoreError, ToolcribError
from toolcrib.ledger.record import check_follows
from toolcrib.store.leases import lost
from toolcrib.store.postgres.cipher import Cipher
from toolcrib.store.postgres.commit_group import CommitGroup
from toolcrib.store.postgres.database import (
    PostgresDatabase,
    close_connection,
    is_connection_lost,
    is_locked_out,
    is_rolled_back,
)
from toolcrib.store.postgres.group_index import GroupIndex, GroupIndexer
from toolcrib.store.postgres.held_leases import HeldLeases
from toolcrib.store.store import ApprovalFiled, Commit, CommitSource, Lease

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_log = logging.getLogger("toolcrib.store")

_Drained = tuple[CommitSource, Commit]
_Commits = Sequence[tuple[Lease, Commit]]
_Outcomes = list[Exception | None]

_ENDS: Final = """
SELECT w.place, s.fence = w.fence AND s.replica_id IS NOT NULL, s.head_seq, s.head_hash,
    EXISTS (SELECT 1 FROM records r WHERE r.born = s.born AND r.session = s.number
        AND r.seq = w.seq AND r.hash = w.hash)
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[]) WITH ORDINALITY
    AS w(session_id, fence, seq, hash, place)
JOIN sessions s ON s.session_id = w.session_id
"""
_FILED: Final = "SELECT approval_id, digest FROM approvals WHERE approval_id = ANY($1::text[])"
SETTINGS: Final = """
SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off
"""
"""A plan for every group: few rows by their keys, however many there are in the tables."""

_LOCK_PART: Final = 1 / 15
"""For how much of the time of a statement a group waits for a row that somebody has locked."""


class _DirectCommit:
    """A commit that somebody waits for in the store's event loop."""

    def __init__(self, lease: Lease, commit: Commit) -> None:
        self.lease = lease
        self._commit = commit
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def drain(self) -> Commit:
        return self._commit

    def settled(self, error: BaseException | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class PostgresWriter:
    """Commits sources in the store's event loop, over a connection of its own."""

    def __init__(
        self,
        database: PostgresDatabase,
        loop: asyncio.AbstractEventLoop,
        cipher: Cipher,
        held: HeldLeases,
        index: GroupIndexer,
    ) -> None:
        self._database = database
        self._loop = loop
        self._cipher = cipher
        self._held = held
        self._index = index
        self._lock = threading.Lock()
        self._queue: list[CommitSource | asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._is_awake = False
        self._is_closed = False
        self._connection: DatabaseConnection | None = None
        self.transactions = 0
        """How many transactions have been committed, for whoever measures grouping."""

    def schedule(self, source: CommitSource) -> None:
        """Commit what `source` holds with the next group. From any thread."""
        self._put(source)

    async def commit(self, lease: Lease, commit: Commit) -> None:
        """Commit now, after everything scheduled before."""
        direct = _DirectCommit(lease, commit)
        self._put(direct)
        await direct.done

    async def catch_up(self) -> None:
        """Return when everything scheduled so far is settled."""
        with self._lock:
            if not self._is_awake:
                return
        barrier: asyncio.Future[None] = self._loop.create_future()
        self._put(barrier)
        await barrier

    async def close(self) -> None:
        """Commit what waits, and end."""
        with self._lock:
            self._is_closed = True
        while self._is_awake:
            await (self._task or asyncio.sleep(0))
            await asyncio.sleep(0)
        if self._connection is not None:
            await close_connection(self._connection)

    def _put(self, item: CommitSource | asyncio.Future[None]) -> None:
        # Under the lock, so that nothing is queued behind the end and waited for in vain.
        with self._lock:
            if self._is_closed:
                raise StoreError(f"the store {self._database.shown} is closed; open it again")
            self._queue.append(item)
            is_awake, self._is_awake = self._is_awake, True
        if not is_awake:
            self._loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._main())

    async def _main(self) -> None:
        while True:
            with self._lock:
                items, self._queue = self._queue, []
                if not items:
                    self._is_awake = False
                    return
            # A source that was scheduled twice is drained once.
            sources = {id(i): i for i in items if not isinstance(i, asyncio.Future)}
            for batch in _batches(list(sources.values())):
                await self._commit(batch)
            for item in items:
                if isinstance(item, asyncio.Future) and not item.done():
                    item.set_result(None)

    async def _commit(self, sources: Sequence[CommitSource]) -> None:
        drained = [d for d in map(_drain, sources) if d is not None]
        commits = [(source.lease, commit) for source, commit in drained]
        try:
            outcomes = await self._write_all(commits)
        except Exception as error:
            _log.exception("a group was not committed")
            outcomes = [error] * len(drained)
        for (source, _), outcome in zip(drained, outcomes, strict=True):
            _settled(source, outcome)
            if isinstance(outcome, LeaseLost):
                self._held.lose(source.lease)

    async def _write_all(self, commits: _Commits, *, is_repeated: bool = False) -> _Outcomes:
        """Write a group; when it is refused whole, each commit alone."""
        deadline = time.monotonic() + self._database.timeouts.outage
        try:
            return await self._write(commits, deadline, is_repeated=is_repeated)
        except Exception as error:
            if len(commits) == 1 or is_connection_lost(error):
                return [self._explained(error)] * len(commits)
        # What failed may have been the question why one of them was refused: others are written.
        return [(await self._write_all([each], is_repeated=True))[0] for each in commits]

    async def _write(self, commits: _Commits, deadline: float, *, is_repeated: bool) -> _Outcomes:
        """Write a group, over as many connections as that takes until the deadline."""
        pause = 0.05
        while True:
            try:
                if is_repeated:
                    return await self._go_on(commits)
                return await self._attempt(commits)
            except Exception as error:
                if is_rolled_back(error):
                    continue
                # A session whose row is locked does not fail those beside it: each goes alone.
                if is_locked_out(error) and len(commits) == 1 and time.monotonic() < deadline:
                    continue
                if not is_connection_lost(error):
                    raise
                self._hang_up()
                if time.monotonic() + pause > deadline:
                    raise
            is_repeated = True
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def _attempt(self, commits: _Commits, *, is_repeated: bool = False) -> _Outcomes:
        """One transaction for all of it."""
        group = CommitGroup(commits, self._cipher)
        connection = await self._ready()
        index = await self._index.prepare(connection, commits)
        if group.has_more or index.has_prompts:
            numbers = await self._transaction(connection, group, index)
        else:
            numbers = await group.write(connection, index)
        self.transactions += 1
        self._index.settle(index, commits, numbers)
        if len(numbers) == len(commits):
            return [None] * len(commits)
        refused = [n for n in range(len(commits)) if n + 1 not in numbers]
        outcomes: _Outcomes = [None] * len(commits)
        reasons = await _reasons(connection, [commits[n] for n in refused], is_repeated)
        for n, reason in zip(refused, reasons, strict=True):
            outcomes[n] = reason
        return outcomes

    async def _transaction(
        self, connection: DatabaseConnection, group: CommitGroup, index: GroupIndex
    ) -> dict[int, int]:
        await connection.execute("BEGIN")
        try:
            numbers = await group.write(connection, index)
            if numbers:
                await index.write_prompts(connection, numbers)
                await group.write_more(connection, numbers)
        except BaseException as error:
            if not is_connection_lost(error) and not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        await connection.execute("COMMIT")
        return numbers

    async def _go_on(self, commits: _Commits) -> _Outcomes:
        """After a lost connection: find out what was committed, and write only the rest."""
        connection = await self._ready()
        ends = await _read_ends(connection, commits)
        outcomes: _Outcomes = [None] * len(commits)
        rest: list[int] = []
        for place, (lease, commit) in enumerate(commits):
            end = ends.get(place + 1)
            if commit.records and end is not None and end[3]:
                continue
            if end is None or not end[0]:
                outcomes[place] = lost(lease)
            else:
                rest.append(place)
        if rest:
            left = [await self._without_filed(connection, commits[place]) for place in rest]
            written = await self._attempt(left, is_repeated=True)
            for place, outcome in zip(rest, written, strict=True):
                outcomes[place] = outcome
        return outcomes

    async def _without_filed(
        self, connection: DatabaseConnection, each: tuple[Lease, Commit]
    ) -> tuple[Lease, Commit]:
        """A commit without records may have been committed: only its requests are not the same
        when they are written again.
        """
        lease, commit = each
        requests = [e.request for e in commit.effects if isinstance(e, ApprovalFiled)]
        if commit.records or not requests:
            return each
        rows = await connection.fetch(_FILED, [request.approval_id for request in requests])
        filed = {(row[0], row[1]) for row in rows}
        effects = [
            effect
            for effect in commit.effects
            if not isinstance(effect, ApprovalFiled)
            or (effect.request.approval_id, effect.request.digest) not in filed
        ]
        return lease, Commit((), effects)

    async def _ready(self) -> DatabaseConnection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
            milliseconds = int(self._database.timeouts.statement * 1000 * _LOCK_PART)
            await self._connection.execute(f"{SETTINGS}; SET lock_timeout = {milliseconds}")
        return self._connection

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        self._database.drop_idle()

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, ToolcribError):
            return error
        if is_connection_lost(error):
            return StoreError(
                f"{self._database.explain(error)}; whether the last records of the session were "
                "saved is not known here: open it again to go on where its ledger ends"
            )
        return self._database.explain(error)


_End = tuple[bool, int, bytes, bool]
"""Whether the lease fits, the head, and whether the last record of the commit is there."""


async def _read_ends(connection: DatabaseConnection, commits: _Commits) -> dict[int, _End]:
    lasts = [commit.records[-1] if commit.records else None for _, commit in commits]
    rows = await connection.fetch(
        _ENDS,
        [lease.session_id for lease, _ in commits],
        [lease.fence for lease, _ in commits],
        [last and last.seq for last in lasts],
        [last and bytes.fromhex(last.hash) for last in lasts],
    )
    return {row[0]: (row[1], row[2], row[3], row[4]) for row in rows}


async def _reasons(
    connection: DatabaseConnection, commits: _Commits, is_repeated: bool
) -> _Outcomes:
    """Why commits did not fit."""
    ends = await _read_ends(connection, commits)
    return [_reason(*each, ends.get(n), is_repeated) for n, each in enumerate(commits, start=1)]


def _reason(lease: Lease, commit: Commit, end: _End | None, is_repeated: bool) -> Exception | None:
    if end is None:
        return lost(lease)
    fits, seq, digest, is_there = end
    # Written by an earlier attempt that ended late: the hash says that it is the same record.
    if is_there and is_repeated:
        return None
    if not fits:
        return lost(lease)
    try:
        check_follows(commit.records, lease.session_id, seq, digest.hex())
    except ToolcribError as error:
        return error
    return StoreError("a commit was refused, and neither its lease nor its records say why")


def _batches(sources: Sequence[CommitSource]) -> list[list[CommitSource]]:
    """Groups in order, none of which has two commits of one session."""
    batches: list[list[CommitSource]] = []
    counts: dict[str, int] = {}
    for source in sources:
        number = counts.get(source.lease.session_id, 0)
        counts[source.lease.session_id] = number + 1
        if number == len(batches):
            batches.append([])
        batches[number].append(source)
    return batches


def _drain(source: CommitSource) -> _Drained | None:
    try:
        return source, source.drain()
    except Exception as error:
        _settled(source, error)
        return None


def _settled(source: CommitSource, error: BaseException | None) -> None:
    try:
        source.settled(error)
    except Exception:
        _log.exception("a ledger failed while its records were settled")
