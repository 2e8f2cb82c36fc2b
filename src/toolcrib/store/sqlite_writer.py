"""The one thread that writes: it commits whatever is waiting together, and keeps leases alive."""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolcrib.errors import StoreError, ToolcribError
from toolcrib.store.leases import Leases
from toolcrib.store.ledger_writer import Drained, drained_commit, settle_source
from toolcrib.store.sqlite_calls import PriceSource
from toolcrib.store.sqlite_rows import expire, write_commits
from toolcrib.store.sqlite_schema import SqliteFile
from toolcrib.store.store import CallOpened, CommitSource, Lease
from toolcrib.store.vault import Vault, VaultChanges

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_log = logging.getLogger("toolcrib.store")


@dataclass(frozen=True, slots=True, eq=False)
class _WriterJob:
    work: Work[Any]
    is_transaction: bool
    result: Future[Any] = field(default_factory=Future[Any])


class Writer:
    """Runs jobs and commits sources in a daemon thread that starts with the first of them."""

    def __init__(
        self,
        file: SqliteFile,
        vault: Vault,
        leases: Leases,
        prices: PriceSource,
        *,
        renew_seconds: float,
    ) -> None:
        self._file = file
        self._prices = prices
        self._vault = vault
        self._leases = leases
        self._renew_seconds = renew_seconds
        self._renew_at = time.monotonic() + renew_seconds
        self._queue: queue.SimpleQueue[_WriterJob | CommitSource | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self.transactions = 0
        """How many transactions have been committed, for whoever measures grouping."""
        self.synced_transactions = 0
        """How many of them waited for the disk because of a start in them."""

    def schedule(self, source: CommitSource) -> None:
        """Commit what `source` holds with the next group."""
        self._put(source)

    def run(self, work: Work[T], *, is_transaction: bool = True) -> T:
        """Do `work` in the thread, after everything scheduled before it, and wait for it."""
        if threading.current_thread() is self._thread:
            raise StoreError("the store's writer cannot wait for itself; use another thread")
        job = _WriterJob(work, is_transaction)
        self._put(job)
        return job.result.result()

    def close(self) -> None:
        """Commit what is waiting, let go of all leases and end the thread."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _put(self, item: _WriterJob | CommitSource) -> None:
        # Under the lock, so that nothing is queued behind the end and waited for in vain.
        with self._lock:
            if self._is_closed:
                raise StoreError(f"the store {self._file.path} is closed; open it again")
            self._queue.put(item)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._main, name="toolcrib-store-writer", daemon=True
                )
                self._thread.start()

    def _main(self) -> None:
        try:
            connection = self._file.connect()
        except StoreError as error:
            self._refuse_all(error)
            return
        try:
            while self._round(connection):
                pass
            self._transaction(connection, self._leases.release_all)
            self._leases.watch.close()
        except Exception:
            _log.exception("the leases of %s were not released", self._file.path)
        finally:
            connection.close()

    def _round(self, connection: sqlite3.Connection) -> bool:
        """Do everything that waits now; false once the store is closing."""
        jobs, sources, is_closing = self._take()
        # A process that stood still first finds out which of its leases it still has.
        self._renew_in_time(connection)
        # Commits before jobs: a job sees everything that was scheduled before it.
        if sources:
            self._commit(connection, sources)
        for job in jobs:
            self._do(connection, job)
        self._renew_in_time(connection)
        return not is_closing

    def _renew_in_time(self, connection: sqlite3.Connection) -> None:
        if self._leases.has_any and time.monotonic() >= self._renew_at:
            self._renew(connection)

    def _take(self) -> tuple[list[_WriterJob], list[CommitSource], bool]:
        jobs: list[_WriterJob] = []
        # A source that was scheduled twice is drained once.
        sources: dict[int, CommitSource] = {}
        is_closing = False
        # Wake in time to renew; without leases only work wakes the thread.
        timeout = max(0.0, self._renew_at - time.monotonic()) if self._leases.has_any else None
        try:
            item = self._queue.get(timeout=timeout)
            while True:
                match item:
                    case None:
                        is_closing = True
                    case _WriterJob():
                        jobs.append(item)
                    case _:
                        sources[id(item)] = item
                item = self._queue.get_nowait()
        except queue.Empty:
            return jobs, list(sources.values()), is_closing

    def _commit(self, connection: sqlite3.Connection, sources: Sequence[CommitSource]) -> None:
        """One transaction for all sources; when one of them may not write, one for each."""
        drained = [d for d in map(drained_commit, sources) if d is not None]
        error = self._write(connection, drained)
        # A full disk or a locked file fails all alike; anything else is one source's own fault.
        if error is not None and not isinstance(error, sqlite3.Error | OSError):
            errors = [self._write(connection, [commit]) for commit in drained]
        else:
            errors = [error] * len(drained)
        # A commit may have waited long for the file; who goes on after it needs a lease in time.
        self._renew_in_time(connection)
        for (source, _), outcome in zip(drained, errors, strict=True):
            settle_source(source, self._explained(outcome) if outcome else None)

    def _write(
        self, connection: sqlite3.Connection, drained: Sequence[Drained]
    ) -> Exception | None:
        commits = [(source.lease, commit) for source, commit in drained]
        vault = VaultChanges(self._vault)
        is_synced = self._must_survive(drained)

        def write(conn: sqlite3.Connection) -> None:
            write_commits(conn, commits, vault, self._prices, is_synced=is_synced)

        try:
            if is_synced:
                self._synced_transaction(connection, write)
            else:
                self._transaction(connection, write)
        except Exception as error:
            vault.rolled_back()
            return error
        vault.committed()
        return None

    def _synced_transaction(self, connection: sqlite3.Connection, work: Work[T]) -> T:
        """A transaction that waits for the disk; one wait serves the whole group."""
        # Within a transaction the level cannot be changed.
        connection.execute("PRAGMA synchronous=FULL")
        try:
            result = self._transaction(connection, work)
        finally:
            connection.execute("PRAGMA synchronous=NORMAL")
        self.synced_transactions += 1
        return result

    def _must_survive(self, drained: Sequence[Drained]) -> bool:
        return self._file.synchronous == "starts" and any(
            isinstance(effect, CallOpened) and effect.must_survive
            for _, commit in drained
            for effect in commit.effects
        )

    def _do(self, connection: sqlite3.Connection, job: _WriterJob) -> None:
        try:
            if job.is_transaction:
                result = self._transaction(connection, job.work)
            else:
                result = job.work(connection)
        except Exception as error:
            job.result.set_exception(self._explained(error))
        else:
            job.result.set_result(result)

    def _transaction(self, connection: sqlite3.Connection, work: Work[T]) -> T:
        try:
            # The write lock is taken now: a lease checked within stays valid until the commit.
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.transactions += 1
        return result

    def _renew(self, connection: sqlite3.Connection) -> None:
        self._renew_at = time.monotonic() + self._renew_seconds
        vault = VaultChanges(self._vault)

        def renew(connection: sqlite3.Connection) -> list[Lease]:
            lost = self._leases.renew(connection)
            # Noticed now, so that a clock that is set back later revives nothing.
            expire(connection, self._leases.clock(), vault)
            return lost

        watch = self._leases.watch
        at = watch.clock()
        try:
            lost = self._transaction(connection, renew)
            vault.committed()
        except Exception:
            vault.rolled_back()
            # The lease still holds until it expires; the next round tries again.
            _log.exception("the leases on %s were not renewed", self._file.path)
            return
        watch.renew(at)
        for lease in lost:
            watch.lose(lease)

    def _refuse_all(self, error: StoreError) -> None:
        # Until the store closes, so that nobody waits for a thread that has ended.
        while (item := self._queue.get()) is not None:
            if isinstance(item, _WriterJob):
                item.result.set_exception(error)
            else:
                settle_source(item, error)

    def _explained(self, error: Exception) -> Exception:
        match error:
            case ToolcribError():
                return error
            case sqlite3.Error():
                return self._file.explain(error)
            case OSError():
                return StoreError(f"{self._file.path} cannot be written: {error.strerror}")
            case _:
                return error
