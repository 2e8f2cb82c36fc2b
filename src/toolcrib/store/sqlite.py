"""The durable store: one SQLite file, several processes, one writer per session."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from toolcrib.approval.decision import Actor, Ballot, Decided
from toolcrib.approval.grant import Grant
from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import LeaseLost, StoreError
from toolcrib.ledger.record import Head, Record
from toolcrib.prices.table import Prices, published_prices
from toolcrib.store import sqlite_rows
from toolcrib.store.call_query import CallQuery, CallRow, PrincipalUse, SumKey, UsageSum
from toolcrib.store.codec import unpacked_artifact
from toolcrib.store.leases import Holder, Leases, is_gone
from toolcrib.store.ledger_writer import DurableLedger
from toolcrib.store.session_query import EVERY_SESSION, SessionQuery, SessionSummary
from toolcrib.store.sqlite_call_reader import CallIndexReader
from toolcrib.store.sqlite_calls import PriceSource, fill_index
from toolcrib.store.sqlite_reader import Reader
from toolcrib.store.sqlite_rows import write_commits
from toolcrib.store.sqlite_schema import SqliteFile, Synchronous
from toolcrib.store.sqlite_writer import Writer
from toolcrib.store.store import (
    PAGE_SIZE,
    ApprovalState,
    Commit,
    CommitSource,
    FiledApproval,
    KeyClaim,
    Lease,
    OpenCall,
    SessionInfo,
    StorePage,
)
from toolcrib.store.stored_text import check_new_id
from toolcrib.store.vault import Vault, VaultChanges

if TYPE_CHECKING:
    from toolcrib.store.approval_query import ApprovalQuery, InboxPage

T = TypeVar("T")


class SqliteStore:
    """Sessions in the file `path`, created owner-only when it is not there.

    What is committed survives the death of the process. A power cut may undo the last commits, but
    not the start of a call whose handler ran, unless the tool is idempotent or read-only: that
    start waits for the disk. With `synchronous="full"` every commit does, with "normal" none.
    Requests to models are priced when they are written, by the published table unless `prices` is
    another.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock = SYSTEM_CLOCK,
        lease_seconds: float = 30.0,
        synchronous: Synchronous = "starts",
        busy_seconds: float = 10.0,
        prices: Prices | None = None,
        key: str | None = None,
    ) -> None:
        self.secret_key = key
        """What `secret_values` encrypts with; None for the key of the environment."""
        self._file = SqliteFile(Path(path), synchronous, busy_seconds)
        self._file.prepare()
        self._pid = os.getpid()
        self._vault = Vault(Path(f"{os.fspath(path)}-open"), fsync=synchronous == "full")
        self._leases = Leases(clock, lease_seconds)
        self._prices: PriceSource = published_prices if prices is None else lambda: prices
        self._writer = Writer(
            self._file,
            self._vault,
            self._leases,
            self._prices,
            renew_seconds=lease_seconds / 3,
        )
        self._reader = Reader(self._file, self._vault, clock)
        self._call_reader = CallIndexReader(self._file, self._vault)
        self.clock = clock
        self._sweep()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_durable(self) -> bool:
        """Always true."""
        return True

    @property
    def file(self) -> SqliteFile:
        """The file, for what has tables of its own in it."""
        return self._file

    @property
    def transactions(self) -> int:
        """How many transactions this store has committed."""
        return self._writer.transactions

    @property
    def synced_transactions(self) -> int:
        """How many of them waited for the disk though `synchronous` is not "full"."""
        return self._writer.synced_transactions

    @property
    def prices(self) -> Prices:
        """The table that was given, else the published one."""
        return self._prices()

    def acquire(
        self,
        session_id: str,
        *,
        create: bool = True,
        settings: dict[str, Any] | None = None,
        owner: str | None = None,
    ) -> Lease:
        """Become the writer. `settings` and `owner` are kept only when the session is new."""
        return self._write().run(
            lambda conn: self._leases.acquire(
                conn, session_id, settings, create=create, owner=owner
            )
        )

    def release(self, lease: Lease) -> None:
        """Stop being the writer; a void lease is ignored."""
        if not self._is_forked():
            self._writer.run(lambda conn: self._leases.release(conn, lease))

    def is_sure(self, lease: Lease) -> bool:
        """True while no other process can have taken the lease."""
        return self._leases.watch.is_sure(lease)

    def watch_lease(self, lease: Lease, on_lost: Callable[[], None]) -> Callable[[], None]:
        """Tell when the lease was taken, or could not be renewed until it was over."""
        return self._leases.watch.watch(lease, on_lost)

    def is_gone(self, holder: str) -> bool:
        """True for a process of this machine that has ended."""
        process = Holder.parse(holder)
        return process is not None and is_gone(process)

    def open_ledger(self, lease: Lease) -> DurableLedger:
        """A ledger whose entries the writer thread commits."""
        return DurableLedger(self, lease)

    def schedule(self, source: CommitSource) -> None:
        """Commit soon. Raises at once when the store is closed or this is a forked child."""
        self._write().schedule(source)

    def commit(self, lease: Lease, commit: Commit) -> None:
        """Commit now, alone."""
        self._with_vault(
            lambda conn, vault: write_commits(conn, [(lease, commit)], vault, self._prices)
        )

    def sessions(
        self,
        query: SessionQuery | None = None,
        *,
        cursor: str | None = None,
        limit: int = PAGE_SIZE,
    ) -> StorePage[SessionInfo]:
        """The sessions that a query asks for, or every session; oldest first unless it says so."""
        return self._read().sessions(query or EVERY_SESSION, cursor, limit)

    def summaries(self, session_ids: Collection[str]) -> dict[str, SessionSummary]:
        """The titles and counts of these sessions, as far as they are there."""
        return self._read().summaries(session_ids)

    def session(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        return self._read().session(session_id)

    def records(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        """Records with `after < seq < before`. Raises `SessionNotFound`."""
        self._read().session(session_id)
        return self._read().records(
            session_id, after, before=before, limit=limit, kinds=kinds, newest_first=newest_first
        )

    def head(self, session_id: str) -> Head | None:
        """The end of the ledger, None while it is empty. Raises `SessionNotFound`."""
        return self._read().session(session_id).head

    def open_calls(self, session_id: str) -> list[OpenCall]:
        """Open calls in the order they were opened."""
        return self._read().open_calls(session_id)

    def known_call(self, session_id: str, call_id: str) -> OpenCall | Record | None:
        """The open call of an id, or the record of its end."""
        return self._read().known_call(session_id, call_id)

    def calls(
        self, query: CallQuery, *, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> StorePage[CallRow]:
        """The calls of all sessions that a query asks for, by the index."""
        self._read()
        return self._call_reader.page(query, cursor, limit)

    def call_sums(self, query: CallQuery, key: SumKey) -> list[UsageSum]:
        """The sums of those calls."""
        self._read()
        return self._call_reader.sums(query, key)

    def principals(self) -> list[PrincipalUse]:
        """What every principal has left."""
        self._read()
        return self._call_reader.principals()

    def stray_calls(self) -> int:
        """How many rows of the index are of no record of their session; 0 unless the file was
        changed.
        """
        self._read()
        return self._call_reader.stray()

    def reindex(self) -> int:
        """Make the index of calls anew from the ledgers, with the prices of now; returns how many
        records it was made of.
        """
        return self._write().run(lambda conn: fill_index(conn, self._prices))

    def approvals(
        self,
        *,
        session_id: str | None = None,
        owner: str | None = None,
        state: ApprovalState | None = None,
        cursor: str | None = None,
        limit: int = PAGE_SIZE,
    ) -> StorePage[FiledApproval]:
        """The inbox, oldest first."""
        rows, end = self._read().numbered_page(
            sqlite_rows.APPROVALS, (session_id, owner, owner, state), cursor, limit
        )
        return StorePage(tuple(sqlite_rows.filed_approval(row, self._vault) for row in rows), end)

    def inbox(
        self, query: ApprovalQuery, *, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> InboxPage:
        """A page of the requests that a query asks for."""
        from toolcrib.store.sqlite_approvals import inbox_page

        return inbox_page(self._read(), self._vault, query, cursor, limit)

    def inbox_marks(self, query: ApprovalQuery) -> dict[str, object]:
        """The ids of those requests, with their votes."""
        from toolcrib.store.sqlite_approvals import inbox_marks

        return inbox_marks(self._read(), query)

    def inbox_version(self) -> int:
        """Changes with every commit of another connection: the writer's, or another process's."""
        (version,) = self._read().rows("PRAGMA data_version")[0]
        return int(version)

    def approval(self, approval_id: str) -> FiledApproval | None:
        """One request of the inbox."""
        rows = self._read().rows(sqlite_rows.APPROVAL, approval_id)
        return sqlite_rows.filed_approval(rows[0], self._vault) if rows else None

    def decide(self, decided: Decided) -> bool:
        """Record the first decision that fits; later ones get False."""
        return self._with_vault(lambda conn, vault: sqlite_rows.decide(conn, decided, vault))

    def vote(self, approval_id: str, digest: str, ballot: Ballot, *, after: Ballot | None) -> bool:
        """Record votes if nobody has voted since `after`."""
        return self._with_vault(
            lambda conn, vault: sqlite_rows.vote(conn, (approval_id, digest), ballot, after, vault)
        )

    def expire(self, now: float) -> None:
        """Record what is over at `now` as expired."""
        if self._read().rows(sqlite_rows.OVERDUE, now, now):
            self._with_vault(lambda conn, vault: sqlite_rows.expire(conn, now, vault))

    def add_grant(self, grant: Grant) -> None:
        """Keep a new grant."""
        check_new_id("grant", grant.grant_id)
        self._write().run(lambda conn: sqlite_rows.add_grant(conn, grant))

    def grants(
        self, *, tool_id: str | None = None, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> StorePage[Grant]:
        """All grants, oldest first, dead ones too."""
        rows, end = self._read().numbered_page(sqlite_rows.GRANTS, (tool_id,), cursor, limit)
        return StorePage(tuple(sqlite_rows.decode_grant(fact) for _, fact in rows), end)

    def grant(self, grant_id: str) -> Grant | None:
        """One grant."""
        rows = self._read().rows(sqlite_rows.GRANT, grant_id)
        return sqlite_rows.decode_grant(rows[0][0]) if rows else None

    def use_grant(self, grant_id: str, now: float) -> bool:
        """Take one use if the grant is live."""
        return self._write().run(
            lambda conn: sqlite_rows.change_grant(conn, grant_id, now, Grant.spend)
        )

    def revoke_grant(self, grant_id: str, now: float, by: Actor) -> bool:
        """End a live grant."""
        return self._write().run(
            lambda conn: sqlite_rows.change_grant(
                conn, grant_id, now, lambda grant: grant.revoke(now, by)
            )
        )

    def claim_key(self, claim: KeyClaim) -> KeyClaim | None:
        """Keep a claim, or return the one that is there."""
        return self._write().run(lambda conn: sqlite_rows.claim_key(conn, claim))

    def settle_key(self, claim: KeyClaim) -> None:
        """Keep the outcome of a claim."""
        self._write().run(lambda conn: sqlite_rows.settle_key(conn, claim))

    def release_key(self, claim: KeyClaim) -> None:
        """Forget a claim."""
        self._write().run(lambda conn: sqlite_rows.release_key(conn, claim))

    def forget_keys(self, lease: Lease) -> None:
        """Forget every claim in a session."""
        self._write().run(lambda conn: sqlite_rows.forget_keys(conn, lease))

    def artifact(self, session_id: str, artifact_id: str) -> str | None:
        """The text of an artifact."""
        rows = self._read().rows(
            "SELECT text FROM artifacts WHERE session_id = ? AND artifact_id = ?",
            session_id,
            artifact_id,
        )
        return unpacked_artifact(rows[0][0]) if rows else None

    def delete_payloads(self, lease: Lease, up_to: int) -> None:
        """Delete payloads, artifacts and used approvals, also from the write-ahead log."""
        self._write().run(lambda conn: sqlite_rows.delete_payloads(conn, lease, up_to))
        self._writer.run(sqlite_rows.empty_log, is_transaction=False)

    def delete_session(self, session_id: str, *, last_seq: int | None = None) -> None:
        """Delete everything of a session that nobody writes."""
        now = self.clock()
        self._with_vault(
            lambda conn, vault: sqlite_rows.delete_session(conn, session_id, now, vault, last_seq)
        )
        self._writer.run(sqlite_rows.empty_log, is_transaction=False)

    def close(self) -> None:
        """Commit what is waiting, release all leases, close the file."""
        if not self._is_forked():
            self._writer.close()
            self._reader.close()

    def _with_vault(self, work: Callable[[sqlite3.Connection, VaultChanges], T]) -> T:
        vault = VaultChanges(self._vault)
        try:
            result = self._write().run(lambda conn: work(conn, vault))
        except Exception:
            vault.rolled_back()
            raise
        vault.committed()
        return result

    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def _write(self) -> Writer:
        if self._is_forked():
            raise LeaseLost(self._fork_message())
        return self._writer

    def _read(self) -> Reader:
        if self._is_forked():
            raise StoreError(self._fork_message())
        return self._reader

    def _fork_message(self) -> str:
        return (
            f"{self._file.path} was opened by process {self._pid}, and neither its connections nor "
            "its leases survive a fork; open the store again in this process"
        )

    def _sweep(self) -> None:
        """Erase what a killed process left in the vault, unless the database is in use."""
        if self._vault.names():
            with suppress(StoreError):
                self._writer.run(lambda conn: sqlite_rows.sweep(conn, self._vault))
