"""Deletion of the rows of one session in portions, so that no statement takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolcrib.store.postgres.partitions import PARTITIONED

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_PORTION: Final = 20_000
_WEEK: Final = " AND born = (SELECT born FROM sessions WHERE number = $1)"
"""Only the partition of the session's week is searched, not all of them."""
# What orders the rows of a session, with a value below all others.
_KEYS: Final[dict[str, tuple[str, int | str]]] = {
    "records": ("seq", 0),
    "payloads": ("seq", 0),
    "calls": ("seq", 0),
    "prompts": ("turn", -1),
    "artifacts": ("artifact_id", ""),
    "open_calls": ("opened", 0),
    "approvals": ("filed", 0),
}


async def delete_rows(
    connection: DatabaseConnection, table: str, number: int, condition: str = "true"
) -> None:
    """Delete the rows of a session that meet a condition. In a transaction, so that it is all of
    them or none; others read and write meanwhile.
    """
    key, last = _KEYS[table]
    rows = f"session = $1 AND {key} > $2 AND {condition}" + (_WEEK if table in PARTITIONED else "")
    # From where the portion before ended: rows that were just deleted are not looked at again.
    statement = (
        f"WITH portion AS (SELECT {key} AS key FROM {table} WHERE {rows} ORDER BY {key} LIMIT $3),"
        f" gone AS (DELETE FROM {table} WHERE {rows} AND {key} <= (SELECT max(key) FROM portion))"
        " SELECT max(key) FROM portion"
    )
    while (end := await connection.fetchval(statement, number, last, _PORTION)) is not None:
        last = end
