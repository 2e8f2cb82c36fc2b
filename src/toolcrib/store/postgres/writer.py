"""The one writer: it commits whatever waits together, in one transaction, and knows after a lost
connection what was committed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from toolcrib.errors import LeaseLost, StoreError, ToolcribError
from toolcrib.ledger.record import check_follows
from toolcrib.store.cipher import Cipher
from toolcrib.store.leases import lost
from toolcrib.store.ledger_writer import Drained, drained_commit, settle_source
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
from toolcrib.store.postgres.locked_commits import Barrier, LockedCommit, locked_sessions
from toolcrib.store.store import ApprovalFiled, Commit, CommitSource, Lease

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_log = logging.getLogger("toolcrib.store")

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

_LOCK_SECONDS: Final = 0.1
"""How long a group waits for a row that somebody has locked, before that session is set aside."""


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
        self._queue: list[CommitSource | Barrier] = []
        self._locked: dict[str, LockedCommit] = {}
        """By their sessions."""
        self._barriers: list[Barrier] = []
        self._more = asyncio.Event()
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

    async def catch_up(self, session_id: str | None = None) -> None:
        """Return when everything scheduled so far is settled. For one session, what others wait
        for behind a lock is not waited for.
        """
        with self._lock:
            if not self._is_awake:
                return
        barrier = Barrier(self._loop.create_future(), session_id)
        self._put(barrier)
        await barrier.done

    async def close(self) -> None:
        """Commit what waits, and end."""
        with self._lock:
            self._is_closed = True
        while self._is_awake:
            await (self._task or asyncio.sleep(0))
            await asyncio.sleep(0)
        if self._connection is not None:
            await close_connection(self._connection)

    def _put(self, item: CommitSource | Barrier) -> None:
        # Under the lock, so that nothing is queued behind the end and waited for in vain.
        with self._lock:
            if self._is_closed:
                raise StoreError(f"the store {self._database.shown} is closed; open it again")
            self._queue.append(item)
            is_awake, self._is_awake = self._is_awake, True
        if not is_awake:
            self._loop.call_soon_threadsafe(self._start)
        elif self._locked:
            self._loop.call_soon_threadsafe(self._more.set)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._main())

    async def _main(self) -> None:
        while True:
            with self._lock:
                items, self._queue = self._queue, []
                if not items and not self._locked:
                    self._is_awake = False
                    return
            # A source that was scheduled twice is drained once.
            sources = {id(i): i for i in items if not isinstance(i, Barrier)}
            for batch in _batches(list(sources.values())):
                await self._commit([source for source in batch if not self._is_behind(source)])
            for item in items:
                if isinstance(item, Barrier):
                    item.waits_for = {
                        name for name in self._locked if item.session_id in (None, name)
                    }
                    self._barriers.append(item)
            if self._locked:
                await self._try_locked()
            self._barriers = [each for each in self._barriers if not each.settle()]
            if self._locked:
                await self._rest()

    async def _commit(self, sources: Sequence[CommitSource]) -> None:
        drained = [d for d in map(drained_commit, sources) if d is not None]
        deadline = time.monotonic() + self._database.timeouts.outage
        for (source, commit), outcome in zip(drained, await self._outcomes(drained), strict=True):
            if outcome is not None and is_locked_out(outcome):
                locked = self._locked[source.lease.session_id] = LockedCommit(
                    source, commit, deadline
                )
                locked.rest()
            else:
                self._settle(source, outcome)

    async def _outcomes(
        self, drained: Sequence[Drained], *, is_repeated: bool = False
    ) -> _Outcomes:
        if not drained:
            return []
        commits = [(source.lease, commit) for source, commit in drained]
        try:
            return await self._write_all(commits, is_repeated=is_repeated)
        except Exception as error:
            _log.exception("a group was not committed")
            return [error] * len(drained)

    def _settle(self, source: CommitSource, outcome: Exception | None) -> None:
        settle_source(source, outcome)
        if isinstance(outcome, LeaseLost):
            self._held.lose(source.lease)

    def _is_behind(self, source: CommitSource) -> bool:
        """Whether a commit of the same session waits for a lock; then this one waits behind it."""
        locked = self._locked.get(source.lease.session_id)
        if locked is not None:
            locked.behind[id(source)] = source
        return locked is not None

    async def _try_locked(self) -> None:
        """Write what is not locked any more; what is for too long fails."""
        now = time.monotonic()
        due = [each for each in self._locked.values() if each.again_at <= now]
        names = await self._find_locked([each.source.lease.session_id for each in due])
        free = [each for each in due if each.source.lease.session_id not in names]
        drained = [(each.source, each.commit) for each in free]
        outcomes = await self._outcomes(drained, is_repeated=True)
        settled = dict(zip(map(id, free), outcomes, strict=True))
        for each in due:
            outcome = settled.get(id(each))
            is_locked = id(each) not in settled or (outcome is not None and is_locked_out(outcome))
            if is_locked and time.monotonic() < each.deadline:
                each.rest()
            else:
                await self._go_past(each, self._database.locked() if is_locked else outcome)

    async def _go_past(self, locked: LockedCommit, outcome: Exception | None) -> None:
        """Settle a commit that waited, and go on with those behind it."""
        session_id = locked.source.lease.session_id
        del self._locked[session_id]
        self._settle(locked.source, outcome)
        behind = list(locked.behind.values())
        while behind:
            await self._commit([behind.pop(0)])
            if (again := self._locked.get(session_id)) is not None:
                again.behind = {id(source): source for source in behind}
                return
        for barrier in self._barriers:
            barrier.waits_for.discard(session_id)

    async def _rest(self) -> None:
        """Wait until a commit that waits for a lock is due, or something else is scheduled."""
        self._more.clear()
        with self._lock:
            if self._queue:
                return
        first = min(each.again_at for each in self._locked.values())
        with suppress(TimeoutError):
            async with asyncio.timeout(max(first - time.monotonic(), 0.0)):
                await self._more.wait()

    async def _find_locked(self, session_ids: list[str]) -> set[str]:
        """The sessions that somebody has locked; none when the database does not say."""
        if not session_ids:
            return set()
        try:
            return await locked_sessions(await self._ready(), session_ids)
        except Exception:
            return set()

    async def _write_all(self, commits: _Commits, *, is_repeated: bool = False) -> _Outcomes:
        """Write a group; when it is refused whole, each commit alone. The outcome of one that
        somebody keeps locked is what the database said.
        """
        deadline = time.monotonic() + self._database.timeouts.outage
        try:
            return await self._write(commits, deadline, is_repeated=is_repeated)
        except Exception as error:
            if len(commits) == 1 and is_locked_out(error):
                return [error]
            if len(commits) == 1 or is_connection_lost(error):
                return [self._explained(error)] * len(commits)
            names = set[str]()
            if is_locked_out(error):
                names = await self._find_locked([lease.session_id for lease, _ in commits])
            outcomes: _Outcomes = [error] * len(commits)
        # What failed may have been the question why one of them was refused: others are written.
        free = [n for n, (lease, _) in enumerate(commits) if lease.session_id not in names]
        groups = [free] if names and free else [[n] for n in free]
        for group in groups:
            written = await self._write_all([commits[n] for n in group], is_repeated=True)
            for n, outcome in zip(group, written, strict=True):
                outcomes[n] = outcome
        return outcomes

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
            milliseconds = int(_LOCK_SECONDS * 1000)
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
