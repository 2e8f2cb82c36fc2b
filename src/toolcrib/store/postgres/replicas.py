"""What replicas know of each other: who is there, hints, and small values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from toolcrib.errors import LeaseLost
from toolcrib.store.postgres import values
from toolcrib.store.postgres.access import PostgresAccess
from toolcrib.store.postgres.heartbeat import live_replicas
from toolcrib.store.postgres.lease_rows import NOW
from toolcrib.store.postgres.parameters import findable
from toolcrib.store.shared_store import Hint, Replica, SessionPlace, SharedValue

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_HOLDER: Final = f"""
SELECT r.replica_id, r.address, r.version, r.started_at, r.expires_at
FROM sessions s JOIN replicas r ON r.replica_id = s.replica_id
WHERE s.session_id = $2 AND r.expires_at > {NOW}
"""
_PLACES: Final = f"""
SELECT s.session_id, s.number, s.head_seq,
r.replica_id, r.address, r.version, r.started_at, r.expires_at
FROM sessions s LEFT JOIN replicas r ON r.replica_id = s.replica_id AND r.expires_at > {NOW}
WHERE s.session_id = ANY($2::text[])
"""


class PostgresReplicas(PostgresAccess):
    """Replicas, hints and shared values."""

    @property
    def replica_id(self) -> str:
        """The id of this process among those that share the store."""
        return self._replica_id

    def derived_keys(self, purpose: str) -> Sequence[bytes]:
        """Keys for a purpose, the same at every replica. Raises `UsageError` without a key."""
        return self._cipher.derived(purpose)

    def join(self, address: str | None) -> Replica:
        """Say where other replicas reach this one."""
        self._check_process(LeaseLost)
        return self._run(lambda: self._persist(lambda: self._heartbeat.join(address)))

    def replicas(self) -> list[Replica]:
        """The replicas whose rows have not expired."""
        return self._read(lambda conn: live_replicas(conn, self._now()))

    def holder(self, session_id: str) -> Replica | None:
        """The replica that has the session open; None when nobody has."""
        rows = self._rows(_HOLDER, self._now(), session_id)
        return Replica(*rows[0]) if rows else None

    def places(self, session_ids: Collection[str]) -> Mapping[str, SessionPlace]:
        """Where these sessions are."""
        rows = self._rows(_PLACES, self._now(), [findable(each) for each in session_ids])
        return {
            session_id: SessionPlace(number, last_seq, Replica(*holder) if holder[0] else None)
            for session_id, number, last_seq, *holder in rows
        }

    def hint(self, hint: Hint) -> None:
        """Send a hint soon."""
        if not self._is_closed and not self._is_forked():
            self._hints.send(hint)

    def on_hint(self, listener: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `listener`, in the store's thread, for the hints of all replicas."""
        return self._hints.subscribe(listener)

    def value(self, name: str) -> SharedValue | None:
        """The value of a name."""
        rows = self._rows(values.VALUE, self._now(), name)
        return values.shared_value(rows[0], self._cipher) if rows else None

    def values(self, prefix: str) -> list[SharedValue]:
        """The values whose names begin so."""
        rows = self._rows(values.VALUES, self._now(), prefix)
        return [values.shared_value(row, self._cipher) for row in rows]

    def put_value(self, value: SharedValue, *, after: int | None) -> bool:
        """Save a value if the saved one has the version `after`."""

        async def put(connection: DatabaseConnection) -> bool:
            return await values.put_value(connection, value, after, self._now(), self._cipher)

        return self._transact(put, after_writes=False)

    def delete_value(self, name: str) -> None:
        """Delete a value."""

        async def delete(connection: DatabaseConnection) -> None:
            await connection.execute(values.DELETE, name)

        self._transact(delete, after_writes=False)
