"""Small values that replicas share, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolcrib.store.cipher import Cipher
from toolcrib.store.postgres.lease_rows import NOW
from toolcrib.store.shared_store import SharedValue

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_FIELDS: Final = "SELECT name, body, sealed, version, expires_at FROM shared_values"
_IS_LIVE: Final = f"(expires_at IS NULL OR expires_at > {NOW})"
VALUE: Final = f"{_FIELDS} WHERE name = $2 AND {_IS_LIVE}"
VALUES: Final = f"{_FIELDS} WHERE name ^@ $2 AND {_IS_LIVE} ORDER BY name"
_ADD: Final = f"""
INSERT INTO shared_values AS v (name, body, sealed, version, expires_at)
VALUES ($2, $3, $4, $5, $6)
ON CONFLICT (name) DO UPDATE SET body = excluded.body, sealed = excluded.sealed,
    version = excluded.version, expires_at = excluded.expires_at WHERE v.expires_at <= {NOW}
RETURNING true
"""
_REPLACE: Final = f"""
UPDATE shared_values SET body = $3, sealed = $4, version = $5, expires_at = $6
WHERE name = $2 AND version = $7 AND {_IS_LIVE} RETURNING true
"""
DELETE: Final = "DELETE FROM shared_values WHERE name = $1"
_PRUNE: Final = f"""
DELETE FROM shared_values WHERE name IN (
    SELECT name FROM shared_values WHERE expires_at <= {NOW} LIMIT 1000 FOR UPDATE SKIP LOCKED)
"""


def value_place(name: str) -> str:
    """What the body of a secret value is bound to."""
    return f"shared value {name}"


def shared_value(row: Any, cipher: Cipher) -> SharedValue:
    """A row of `VALUE` or `VALUES`."""
    name, body, sealed, version, expires_at = row
    is_secret = sealed is not None
    return SharedValue(
        name,
        cipher.open(sealed, value_place(name)) if is_secret else body,
        version,
        expires_at,
        is_secret,
    )


async def put_value(
    connection: DatabaseConnection,
    value: SharedValue,
    after: int | None,
    now: float | None,
    cipher: Cipher,
) -> bool:
    """Compare-and-swap by the version."""
    body = None if value.is_secret else value.body
    sealed = cipher.seal(value.body, value_place(value.name)) if value.is_secret else None
    fields = (now, value.name, body, sealed, value.version, value.expires_at)
    if after is None:
        return bool(await connection.fetchval(_ADD, *fields))
    return bool(await connection.fetchval(_REPLACE, *fields, after))


async def prune_values(connection: DatabaseConnection, now: float | None) -> None:
    """Delete values that have expired."""
    await connection.execute(_PRUNE, now)
