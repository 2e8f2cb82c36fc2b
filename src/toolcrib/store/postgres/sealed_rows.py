"""Every secret of the store sealed anew under the first key, so that an older one can go.

A secret that is changed meanwhile is left: whoever changed it has sealed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import StoreError
from toolcrib.store.cipher import Cipher
from toolcrib.store.postgres.commit_group import open_call_place
from toolcrib.store.postgres.inbox_rows import approval_place
from toolcrib.store.postgres.values import value_place

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class _SealedTable:
    """A table with secrets: its rows in the order of their key, and what they are bound to."""

    find: str
    """The key, the parts of the place and the secret of some rows, after a key."""
    save: str
    first: tuple[Any, ...]
    """What lies before every key."""
    place: Callable[..., str]


_TABLES: Final = (
    _SealedTable(
        "SELECT name, name, sealed FROM shared_values WHERE name > $2 AND sealed IS NOT NULL"
        f" AND substring(sealed FROM 1 FOR 8) <> $1 ORDER BY name LIMIT {_AT_ONCE}",
        "UPDATE shared_values SET sealed = $1 WHERE sealed = $2 AND name = $3",
        ("",),
        value_place,
    ),
    _SealedTable(
        "SELECT approval_id, approval_id, sealed FROM approvals WHERE approval_id > $2"
        " AND sealed IS NOT NULL AND substring(sealed FROM 1 FOR 8) <> $1"
        f" ORDER BY approval_id LIMIT {_AT_ONCE}",
        "UPDATE approvals SET sealed = $1 WHERE sealed = $2 AND approval_id = $3",
        ("",),
        approval_place,
    ),
    _SealedTable(
        "SELECT o.session, o.call_id, s.session_id, o.call_id, o.sealed FROM open_calls o"
        " JOIN sessions s ON s.number = o.session WHERE (o.session, o.call_id) > ($2, $3)"
        " AND o.sealed IS NOT NULL AND substring(o.sealed FROM 1 FOR 8) <> $1"
        f" ORDER BY o.session, o.call_id LIMIT {_AT_ONCE}",
        "UPDATE open_calls SET sealed = $1 WHERE sealed = $2 AND session = $3 AND call_id = $4",
        (0, ""),
        open_call_place,
    ),
)


async def seal_anew(connection: DatabaseConnection, cipher: Cipher) -> int:
    """Seal what lies under another key than the first; returns how many rows. Those whose key is
    not given here stay as they are.
    """
    count = 0
    for table in _TABLES if cipher.has_key else ():
        after, width = table.first, len(table.first)
        while rows := await connection.fetch(table.find, cipher.key_name, *after):
            for row in map(tuple, rows):
                after, parts, sealed = row[:width], row[width:-1], row[-1]
                place = table.place(*parts)
                try:
                    secret = cipher.open(sealed, place)
                except StoreError:
                    continue
                await connection.execute(table.save, cipher.seal(secret, place), sealed, *after)
                count += 1
    return count
