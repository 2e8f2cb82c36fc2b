"""The store that several machines share: sessions and ledgers on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self

from toolcrib.clock import Clock
from toolcrib.errors import LeaseLost, StoreError
from toolcrib.ledger.record import Head, Record
from toolcrib.prices.table import Prices, published_prices
from toolcrib.store.codec import unpacked_artifact
from toolcrib.store.leases import Holder, is_gone
from toolcrib.store.ledger_writer import DurableLedger
from toolcrib.store.postgres import lease_rows, reader
from toolcrib.store.postgres.database import Timeouts, is_connection_lost
from toolcrib.store.postgres.inbox import PostgresInbox
from toolcrib.store.postgres.index_store import PostgresIndex
from toolcrib.store.postgres.turns import PostgresTurns
from toolcrib.store.record_marks import first_rows, more_rows
from toolcrib.store.store import Commit, CommitSource, Lease, OpenCall, SessionInfo

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_ARTIFACT = """
SELECT a.body, a.is_packed FROM artifacts a JOIN sessions s ON s.number = a.session
WHERE s.session_id = $1 AND a.artifact_id = $2
"""


class PostgresStore(PostgresInbox, PostgresIndex, PostgresTurns):
    """Sessions in the database at `url`, whose tables are made when they are not there.

    Any number of processes on any machines share it; each is a replica. What is committed is as
    safe as the database makes it. Time is the database's: a `clock` is for tests. Secrets are
    encrypted with `key`, or with what the environment has (`TOOLCRIB_STORE_KEY`, or a file named by
    `TOOLCRIB_STORE_KEY_FILE`); without a key they are refused.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        lease_seconds: float = 10.0,
        key: str | None = None,
        prices: Prices | None = None,
        uses_hints: bool = True,
        uses_process_check: bool = True,
        pool_size: int = 4,
        timeouts: Timeouts | None = None,
    ) -> None:
        super().__init__(
            url,
            clock=clock,
            lease_seconds=lease_seconds,
            key=key,
            uses_hints=uses_hints,
            uses_process_check=uses_process_check,
            pool_size=pool_size,
            timeouts=timeouts or Timeouts(),
            prices=published_prices if prices is None else lambda: prices,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_durable(self) -> bool:
        """Always true."""
        return True

    @property
    def clock(self) -> Clock:
        """The database's time, as the last renewal of the leases found it."""
        return self._heartbeat.clock

    @property
    def is_shared(self) -> Literal[True]:
        """Always true."""
        return True

    @property
    def transactions(self) -> int:
        """How many transactions this store has committed."""
        return self._writer.transactions

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
        self._check_process(LeaseLost)

        async def acquire() -> Lease:
            await self._persist(self._heartbeat.start)
            with self._held.taking():
                try:
                    lease = await self._transacting(take, True, session_id)
                except StoreError as error:
                    # The answer was lost on its way: the session may be this replica's by now.
                    if error.__cause__ is not None and is_connection_lost(error.__cause__):
                        self._held.abandon(session_id)
                    raise
                self._held.add(lease)
            return lease

        async def take(connection: DatabaseConnection) -> Lease:
            me = self._identity()
            return await lease_rows.acquire(
                connection, me, session_id, settings, owner, create=create
            )

        return self._run(acquire)

    def release(self, lease: Lease) -> None:
        """Stop being the writer; a void lease is ignored."""
        if self._is_forked():
            return
        try:
            self._transact(
                lambda conn: lease_rows.release(conn, lease), session_id=lease.session_id
            )
        except StoreError:
            # The next renewal lets go of it.
            if self._held.is_held(lease.session_id):
                self._held.abandon(lease.session_id, lease.fence)
            raise
        finally:
            self._held.remove(lease)

    def is_sure(self, lease: Lease) -> bool:
        """Whether no other replica can have taken the lease."""
        return self._held.is_sure(lease)

    def watch_lease(self, lease: Lease, on_lost: Callable[[], None]) -> Callable[[], None]:
        """Call `on_lost` once when the lease cannot be counted on any more."""
        return self._held.watch_lease(lease, on_lost)

    def is_gone(self, holder: str) -> bool:
        """True only when a process of this machine, or of one like it, certainly runs no more."""
        process = Holder.parse(holder)
        return self._uses_process_check and process is not None and is_gone(process)

    def open_ledger(self, lease: Lease) -> DurableLedger:
        """A ledger whose entries the writer commits."""
        return DurableLedger(self, lease)

    def schedule(self, source: CommitSource) -> None:
        """Commit soon. Raises at once when the store is closed or this is a forked child."""
        if self._is_forked():
            self._check_process(LeaseLost)
        self._writer.schedule(source)

    def commit(self, lease: Lease, commit: Commit) -> None:
        """Commit now, after everything scheduled before."""
        self._check_process(LeaseLost)
        self._run(lambda: self._writer.commit(lease, commit))

    def session(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        row = self._read(lambda conn: reader.session_row(conn, session_id, self._now()))
        return reader.session_info(row, uses_process_check=self._uses_process_check)

    def head(self, session_id: str) -> Head | None:
        """The end of the ledger, None while it is empty. Raises `SessionNotFound`."""
        return self.session(session_id).head

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
        row = self._read(lambda conn: reader.session_row(conn, session_id, self._now()))
        place = (session_id, row[7], row[6])
        end = reader.NO_END if before is None else before
        left = reader.NO_END if limit is None else limit
        return self._pages(place, (after, end), kinds, left, newest_first)

    def _pages(
        self,
        place: tuple[str, int, int],
        bounds: tuple[int, int],
        kinds: Collection[str] | None,
        left: int,
        newest_first: bool,
    ) -> Iterator[Record]:
        """Some rows at a time: a ledger is not loaded whole."""
        after, before = bounds
        rows = first_rows(newest_first=newest_first)
        while left > 0:
            count, rows = min(left, rows), more_rows(rows)
            records = self._read(
                lambda conn, bounds=(after, before), count=count: reader.read_records(
                    conn, place, bounds, kinds, count, newest_first=newest_first
                )
            )
            yield from records
            if len(records) < count:
                return
            left -= count
            last = records[-1].seq
            after, before = (after, last) if newest_first else (last, before)

    def open_calls(self, session_id: str) -> list[OpenCall]:
        """Open calls in the order they were opened."""
        return self._read(lambda conn: reader.read_open_calls(conn, session_id, self._cipher))

    def known_call(self, session_id: str, call_id: str) -> OpenCall | Record | None:
        """The open call of an id, or the record of its end."""
        return self._read(lambda conn: reader.known_call(conn, session_id, call_id, self._cipher))

    def artifact(self, session_id: str, artifact_id: str) -> str | None:
        """The text of an artifact."""
        rows = self._rows(_ARTIFACT, session_id, artifact_id)
        if not rows:
            return None
        body, is_packed = rows[0]
        return unpacked_artifact(body if is_packed else body.decode("utf-8", "surrogatepass"))

    def delete_payloads(self, lease: Lease, up_to: int) -> None:
        """Delete payloads, artifacts and used approvals."""
        self._transact(lambda conn: lease_rows.delete_payloads(conn, lease, up_to))
        self._run(self._forget_calls)

    def delete_session(self, session_id: str, *, last_seq: int | None = None) -> None:
        """Delete everything of a session that nobody writes."""
        me = self._identity()
        self._transact(lambda conn: lease_rows.delete_session(conn, me, session_id, last_seq))

    def drop_empty_weeks(self) -> int:
        """Drop the partitions of weeks whose every session was deleted; returns how many."""
        return self._run(self._upkeep.drop_empty_weeks)

    def close(self) -> None:
        """Commit what is waiting, release all leases, close the connections."""
        if self._is_forked() or self._is_closed:
            return
        with suppress(StoreError):
            self._run(self._shut_down)
        self._is_closed = True
        self._thread.stop()
