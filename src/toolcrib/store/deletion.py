"""Deleting on purpose: payloads, whole sessions, and what a killed process left behind."""

from __future__ import annotations

import sqlite3

from toolcrib.errors import SessionNotFound
from toolcrib.store.leases import check_free, check_lease
from toolcrib.store.store import Lease
from toolcrib.store.vault import Vault, VaultChanges

_OF_SESSION = ("records", "open_calls", "approvals", "grants", "artifacts", "sessions")
_DELETE_PAYLOADS = "DELETE FROM payloads WHERE id IN (SELECT id FROM records WHERE session_id = ?)"


def delete_payloads(connection: sqlite3.Connection, lease: Lease) -> None:
    """Delete what can be deleted while the chain still verifies."""
    check_lease(connection, lease)
    of_session = (lease.session_id,)
    connection.execute(_DELETE_PAYLOADS, of_session)
    connection.execute("DELETE FROM artifacts WHERE session_id = ?", of_session)
    connection.execute("DELETE FROM approvals WHERE session_id = ? AND state = 'used'", of_session)


def delete_session(
    connection: sqlite3.Connection, session_id: str, now: float, vault: VaultChanges
) -> None:
    """Delete every row of a session, its own grants too. Raises `LeaseHeld` while it is written."""
    row = connection.execute(
        "SELECT fence, holder, expires_at FROM sessions WHERE session_id = ?", (session_id,)
    ).fetchone()
    if row is None:
        raise SessionNotFound(f"there is no session {session_id!r}")
    fence, holder, expires_at = row
    check_free(session_id, holder, expires_at, now)
    vault.doom(_vault_names(connection, session_id))
    connection.execute(_DELETE_PAYLOADS, (session_id,))
    for table in _OF_SESSION:
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    # A session made again under this id must not honour leases of the deleted one.
    connection.execute("UPDATE fence_floor SET fence = max(fence, ?)", (fence,))


def empty_log(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the database and cut it to nothing.

    SQLite does as much of it as readers in other processes allow; the rest follows later.
    """
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def sweep(connection: sqlite3.Connection, vault: Vault) -> None:
    """Erase vault files that neither an open call nor a decision names.

    Within a write transaction, because a file is written in the transaction that names it.
    """
    vault.erase(vault.names() - _vault_names(connection, None))


def _vault_names(connection: sqlite3.Connection, session_id: str | None) -> set[str]:
    names: set[str] = set()
    for table in ("open_calls", "approvals"):
        rows = connection.execute(
            f"SELECT vault FROM {table} WHERE vault IS NOT NULL"
            " AND session_id = ifnull(?, session_id)",
            (session_id,),
        )
        names.update(name for (name,) in rows)
    return names
