"""The turns of the store on PostgreSQL: queued, claimed, settled."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from toolcrib.errors import LeaseLost, StoreError
from toolcrib.store.postgres import turn_rows
from toolcrib.store.postgres.database import is_connection_lost
from toolcrib.store.postgres.parameters import findable
from toolcrib.store.postgres.replicas import PostgresReplicas
from toolcrib.store.shared_store import ClaimedTurn, Hint, QueuedTurn, QueueRule

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection


class PostgresTurns(PostgresReplicas):
    """Turns that were accepted, for whichever replica takes them up."""

    _is_unsure = False
    """Whether the answer to a claim was lost: sessions may be this replica's by now."""

    def queue_turn(
        self, turn: QueuedTurn, *, when_busy: QueueRule, most_queued: int, by: str
    ) -> QueuedTurn | None:
        """Make a turn durable behind those of its session."""

        async def queue(connection: DatabaseConnection) -> QueuedTurn | None:
            now = self._now()
            return await turn_rows.queue_turn(connection, turn, when_busy, most_queued, by, now)

        queued = self._transact(queue, after_writes=False)
        if queued is not None:
            self.hint(Hint("cancel" if when_busy == "interrupt" else "turn", turn.session_id))
        return queued

    def claim_turns(
        self,
        limit: int,
        *,
        session_id: str | None = None,
        only_open: bool = False,
    ) -> Sequence[ClaimedTurn]:
        """Become the writer of sessions whose first turn is due."""
        self._check_process(LeaseLost)

        async def claim() -> list[ClaimedTurn]:
            await self._persist(self._heartbeat.start)
            if self._is_unsure:
                await self._reading(self._abandon_unknown)
            with self._held.taking():
                try:
                    claimed = await self._transacting(take, after_writes=session_id is not None)
                except StoreError as error:
                    if error.__cause__ is not None and is_connection_lost(error.__cause__):
                        self._is_unsure = True
                    raise
                for each in claimed:
                    if not each.was_held:
                        self._held.add(each.lease)
            return claimed

        async def take(connection: DatabaseConnection) -> list[ClaimedTurn]:
            return await turn_rows.claim_turns(
                connection,
                self._identity(),
                limit,
                session_id and findable(session_id),
                only_open=only_open,
            )

        return self._run(claim)

    async def _abandon_unknown(self, connection: DatabaseConnection) -> None:
        """Find the sessions of claims whose answers were lost, so that they are let go."""
        for row in await connection.fetch(turn_rows.HELD, self._replica_id):
            if not self._held.is_held(row[0]):
                self._held.abandon(row[0])
        self._is_unsure = False

    def due_turns(self, limit: int) -> Sequence[str]:
        """The ids of sessions whose turns are due."""

        async def look(connection: DatabaseConnection) -> list[str]:
            return await turn_rows.due_sessions(connection, self._identity(), limit)

        return self._transact(look, after_writes=False)

    def settle_turn(
        self,
        claimed: ClaimedTurn,
        settled: QueuedTurn,
        *,
        releases: bool = True,
        pause_seconds: float = 0.0,
    ) -> None:
        """Save what has become of a turn and release its lease."""
        lease = claimed.lease

        async def settle(connection: DatabaseConnection) -> None:
            now = self._now()
            await turn_rows.settle_turn(
                connection, claimed, settled, now, releases=releases, pause_seconds=pause_seconds
            )

        try:
            self._transact(settle)
        except LeaseLost:
            self._held.lose(lease)
            raise
        except StoreError:
            # The next renewal lets go of it.
            if releases and self._held.is_held(lease.session_id):
                self._held.abandon(lease.session_id, lease.fence)
                self._held.remove(lease)
            raise
        if releases:
            self._held.remove(lease)
        self.hint(Hint("turn", lease.session_id))

    def leave_turn(self, claimed: ClaimedTurn, *, pause_seconds: float = 0.0) -> None:
        """Stop running a turn."""

        async def leave(connection: DatabaseConnection) -> None:
            await turn_rows.leave_turn(
                connection, claimed, self._now(), pause_seconds=pause_seconds
            )

        self._transact(leave, after_writes=False)
        self.hint(Hint("turn", claimed.lease.session_id))

    def cancel_turn(self, session_id: str, by: str) -> QueuedTurn | None:
        """Let the first turn of a session be cancelled."""
        cancelled = self._transact(
            lambda conn: turn_rows.cancel_turn(conn, findable(session_id), by, self._now()),
            after_writes=False,
        )
        if cancelled is not None:
            self.hint(Hint("cancel", session_id))
        return cancelled

    def cancelled_turns(self) -> list[QueuedTurn]:
        """The turns that run at this replica and were cancelled."""
        return self._turns_of(turn_rows.CANCELLED, self._replica_id)

    def turns(
        self, *, session_id: str | None = None, turn_ids: Collection[str] = ()
    ) -> list[QueuedTurn]:
        """The turns of these ids, or those of a session that have not ended."""
        if session_id is None:
            return self._turns_of(turn_rows.BY_ID, list(turn_ids))
        return self._turns_of(turn_rows.NOT_ENDED, session_id)

    def last_turn(self, session_id: str) -> QueuedTurn | None:
        """The newest turn of a session."""
        newest = self._turns_of(turn_rows.NEWEST, session_id)
        return newest[0] if newest else None

    def prune_turns(self, before: float) -> None:
        """Delete turns that ended before this time and are not kept."""

        async def prune(connection: DatabaseConnection) -> None:
            await connection.execute(turn_rows.PRUNE, before)

        self._transact(prune, after_writes=False)

    def _turns_of(self, statement: str, parameter: object) -> list[QueuedTurn]:
        return [turn_rows.queued_turn(row) for row in self._rows(statement, parameter)]
