"""Approvals and grants as rows. Each function runs within one transaction of its caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from toolcrib.approval.decision import Decided
from toolcrib.approval.grant import Grant
from toolcrib.errors import StoreError
from toolcrib.store.codec import (
    decode_decided,
    decode_grant,
    decode_request,
    encode,
    put_back_edit,
    take_out_edit,
)
from toolcrib.store.store import FiledApproval
from toolcrib.store.vault import Vault, VaultChanges

APPROVALS = (
    "SELECT filed, request, state, decided, vault FROM approvals"
    " WHERE session_id = ifnull(?, session_id) AND state = ifnull(?, state) AND filed > ?"
    " ORDER BY filed LIMIT ?"
)
APPROVAL = "SELECT filed, request, state, decided, vault FROM approvals WHERE approval_id = ?"
_PENDING = "SELECT 1 FROM approvals WHERE approval_id = ? AND digest = ? AND state = 'pending'"
_DECIDE = "UPDATE approvals SET state = 'decided', decided = ?, vault = ? WHERE approval_id = ?"
GRANTS = (
    "SELECT made, fact FROM grants WHERE tool_id = ifnull(?, tool_id) AND made > ?"
    " ORDER BY made LIMIT ?"
)
GRANT = "SELECT fact FROM grants WHERE grant_id = ?"


def filed_approval(row: tuple[Any, ...], vault: Vault) -> FiledApproval:
    """One row of `APPROVALS` or `APPROVAL`. Edited arguments are empty once they were used."""
    _, request, state, data, name = row
    decided = decode_decided(data) if data else None
    if decided is not None and name is not None:
        try:
            decided = put_back_edit(decided, vault.read(name))
        except FileNotFoundError:
            # Used, and its file erased, since the row was read; or lost with its file. Either way
            # nobody may act on it: without its edit it is not what was decided.
            state = "used"
    return FiledApproval(decode_request(request), state, decided)


def decide(connection: sqlite3.Connection, decided: Decided, vault: VaultChanges) -> bool:
    """Compare-and-swap from pending to decided.

    Edited arguments may hold secrets that nobody has marked yet, so they all go to the vault.
    """
    key = (decided.approval_id, decided.digest)
    if connection.execute(_PENDING, key).fetchone() is None:
        return False
    emptied, edited = take_out_edit(decided)
    name = None if edited is None else vault.put(edited)
    connection.execute(_DECIDE, (encode(emptied), name, decided.approval_id))
    return True


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
    row = connection.execute(GRANT, (grant_id,)).fetchone()
    grant = decode_grant(row[0]) if row else None
    if grant is None or not grant.is_live(now):
        return False
    connection.execute(
        "UPDATE grants SET fact = ? WHERE grant_id = ?", (encode(change(grant)), grant_id)
    )
    return True
