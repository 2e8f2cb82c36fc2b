"""Approvals and grants as rows. Each function runs within one transaction of its caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from toolcrib.approval.decision import Decided
from toolcrib.approval.grant import Grant
from toolcrib.errors import StoreError
from toolcrib.store.codec import decode_decided, decode_grant, decode_request, encode
from toolcrib.store.store import FiledApproval

APPROVALS = (
    "SELECT request, state, decided FROM approvals"
    " WHERE session_id = ifnull(?, session_id) AND state = ifnull(?, state) ORDER BY filed"
)
APPROVAL = "SELECT request, state, decided FROM approvals WHERE approval_id = ?"
GRANTS = "SELECT fact FROM grants WHERE tool_id = ifnull(?, tool_id) ORDER BY made"


def filed_approval(row: tuple[Any, ...]) -> FiledApproval:
    """One row of `APPROVALS` or `APPROVAL`."""
    request, state, decided = row
    return FiledApproval(
        decode_request(request), state, decode_decided(decided) if decided else None
    )


def decide(connection: sqlite3.Connection, decided: Decided) -> bool:
    """Compare-and-swap from pending to decided."""
    changed = connection.execute(
        "UPDATE approvals SET state = 'decided', decided = ?"
        " WHERE approval_id = ? AND digest = ? AND state = 'pending'",
        (encode(decided), decided.approval_id, decided.digest),
    )
    return changed.rowcount == 1


def add_grant(connection: sqlite3.Connection, grant: Grant) -> None:
    """Keep a new grant."""
    try:
        connection.execute(
            "INSERT INTO grants (grant_id, tool_id, session_id, fact) VALUES (?, ?, ?, ?)",
            (grant.grant_id, grant.tool_id, grant.session_id, encode(grant)),
        )
    except sqlite3.IntegrityError as error:
        raise StoreError(f"there is already a grant {grant.grant_id!r}") from error


def change_grant(
    connection: sqlite3.Connection, grant_id: str, now: float, change: Callable[[Grant], Grant]
) -> bool:
    """Replace a grant that is live by what `change` makes of it."""
    row = connection.execute("SELECT fact FROM grants WHERE grant_id = ?", (grant_id,)).fetchone()
    grant = decode_grant(row[0]) if row else None
    if grant is None or not grant.is_live(now):
        return False
    connection.execute(
        "UPDATE grants SET fact = ? WHERE grant_id = ?", (encode(change(grant)), grant_id)
    )
    return True
