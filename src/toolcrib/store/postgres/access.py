"""How the parts of the store reach the database, and the thread that all of it runs in."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.clock import Clock
from toolcrib.errors import LeaseLost, StoreError, ToolcribError
from toolcrib.store.cipher import Cipher, keys_from_environment
from toolcrib.store.leases import this_process
from toolcrib.store.postgres.database import (
    PostgresDatabase,
    Timeouts,
    is_connection_lost,
    is_rolled_back,
)
from toolcrib.store.postgres.group_index import GroupIndexer
from toolcrib.store.postgres.heartbeat import Heartbeat, HeartbeatOptions
from toolcrib.store.postgres.held_leases import HeldLeases
from toolcrib.store.postgres.hints import HintExchange
from toolcrib.store.postgres.lease_rows import ReplicaIdentity
from toolcrib.store.postgres.loop_thread import LoopThread
from toolcrib.store.postgres.parameters import findable
from toolcrib.store.postgres.schema import ensure_schema
from toolcrib.store.postgres.side_connection import SideConnection
from toolcrib.store.postgres.upkeep import Upkeep
from toolcrib.store.postgres.writer import PostgresWriter

if TYPE_CHECKING:
    from asyncpg import Record as DatabaseRow

    from toolcrib.prices.table import Prices
    from toolcrib.store.postgres.database import DatabaseConnection

T = TypeVar("T")
Work = Callable[["DatabaseConnection"], Awaitable[T]]


class PostgresAccess:
    """What every part of the store uses. Its methods may be called from any thread but the
    store's own.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None,
        lease_seconds: float,
        key: str | None,
        uses_hints: bool,
        uses_process_check: bool,
        pool_size: int,
        timeouts: Timeouts,
        prices: Callable[[], Prices],
    ) -> None:
        self._pid = os.getpid()
        self._clock = clock
        self._is_closed = False
        self._uses_process_check = uses_process_check
        self._replica_id = secrets.token_hex(8)
        self._cipher = Cipher(key if key is not None else keys_from_environment())
        self._held = HeldLeases(lease_seconds)
        self._database = PostgresDatabase(url, timeouts, pool_size)
        self._thread = LoopThread("toolcrib-postgres")
        loop = self._thread.loop
        self._prices = prices
        self._indexer = GroupIndexer(prices)
        self._writer = PostgresWriter(self._database, loop, self._cipher, self._held, self._indexer)
        self._hints = HintExchange(self._database, loop, self._replica_id, uses_database=uses_hints)
        self._side = SideConnection(self._database)
        options = HeartbeatOptions(self._replica_id, lease_seconds, clock, uses_process_check)
        self._upkeep = Upkeep(self._database, self._now, self._cipher)
        beats = [self._upkeep.beat]
        self._heartbeat = Heartbeat(self._database, self._side, self._held, options, beats)
        try:
            self._read(lambda connection: ensure_schema(connection, self._database.shown))
        except BaseException:
            # A schema that is refused leaves the connection it was read on.
            self._thread.run(self._database.close)
            self._thread.stop()
            raise

    def _now(self) -> float | None:
        """The time of the clock that was given; None for the database's."""
        return None if self._clock is None else self._clock()

    def _identity(self) -> ReplicaIdentity:
        return ReplicaIdentity(
            self._replica_id,
            str(this_process()),
            self._now(),
            self._held,
            self._uses_process_check,
        )

    def _ensure_joined(self) -> None:
        """Have this replica's row there, and renewed: its leases count only as long as that."""
        self._run(lambda: self._persist(self._heartbeat.start))

    def _rows(self, statement: str, *parameters: object) -> list[DatabaseRow]:
        """Every row of one query, whose texts are looked for."""
        sent = [findable(each) if isinstance(each, str) else each for each in parameters]
        return self._read(lambda connection: connection.fetch(statement, *sent))

    def _read(self, work: Work[T]) -> T:
        """Do some work that changes nothing, again when the connection was lost."""
        self._check_process(StoreError)
        return self._run(lambda: self._reading(work))

    def _search(self, work: Work[T]) -> T:
        """Do some work that changes nothing in one view of the database, by its indexes."""
        return self._read(lambda connection: _in_view(connection, work))

    def _transact(
        self, work: Work[T], *, after_writes: bool = True, session_id: str | None = None
    ) -> T:
        """Do some work in a transaction, after everything that was scheduled before it; after that
        of one session, if it is named.
        """
        self._check_process(LeaseLost)
        return self._run(lambda: self._transacting(work, after_writes, session_id))

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._is_closed:
            raise StoreError(f"the store {self._database.shown} is closed; open it again")
        try:
            return self._thread.run(work)
        except ToolcribError:
            raise
        except Exception as error:
            raise self._database.explain(error) from error

    async def _reading(self, work: Work[T]) -> T:
        return await self._persist(lambda: self._read_once(work))

    async def _read_once(self, work: Work[T]) -> T:
        async with self._database.connection() as connection:
            return await work(connection)

    async def _transacting(
        self, work: Work[T], after_writes: bool, session_id: str | None = None
    ) -> T:
        if after_writes:
            await self._writer.catch_up(session_id)
        return await self._persist(lambda: self._transact_once(work))

    async def _transact_once(self, work: Work[T]) -> T:
        async with self._database.connection() as connection:
            await connection.execute("BEGIN")
            try:
                result = await work(connection)
            except BaseException as error:
                if not is_connection_lost(error) and not connection.is_closed():
                    await connection.execute("ROLLBACK")
                raise
            try:
                await connection.execute("COMMIT")
            except Exception as error:
                if is_connection_lost(error):
                    raise StoreError(
                        f"{self._database.explain(error)}; whether the last change was saved is "
                        "not known: look before you repeat it"
                    ) from error
                raise
            self._writer.transactions += 1
            return result

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try again while the database is away, and when it undid a transaction for others."""
        deadline = time.monotonic() + self._database.timeouts.outage
        pause = 0.05
        while True:
            try:
                return await attempt()
            except Exception as error:
                if is_rolled_back(error):
                    continue
                if not is_connection_lost(error) or time.monotonic() + pause > deadline:
                    raise
                self._database.drop_idle()
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def _check_process(self, error: type[StoreError]) -> None:
        if self._is_forked():
            raise error(
                f"{self._database.shown} was opened by process {self._pid}, and neither its "
                "connections nor its leases survive a fork; open the store again in this process"
            )

    async def _forget_calls(self) -> None:
        self._indexer.forget()

    async def _shut_down(self) -> None:
        await self._writer.close()
        await self._hints.close()
        await self._upkeep.close()
        await self._heartbeat.stop()
        await self._side.close()
        await self._database.close()


async def _in_view(connection: DatabaseConnection, work: Work[T]) -> T:
    # A page is found by an index, also before the database knows how many rows there are.
    await connection.execute(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL enable_seqscan = off"
    )
    try:
        result = await work(connection)
    except BaseException as error:
        if not is_connection_lost(error) and not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise
    await connection.execute("COMMIT")
    return result
