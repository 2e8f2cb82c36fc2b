"""Secrets that a store keeps beside its sessions, such as credentials for other servers: encrypted
under a key that the store does not have.

A store that several machines share keeps them among its shared values; an SQLite file in a table of
its own; a store in memory in memory.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from toolcrib.store.cipher import Cipher, keys_from_environment
from toolcrib.store.shared_store import SharedValue, ValueStore, is_shared
from toolcrib.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.store.sqlite_schema import SqliteFile
    from toolcrib.store.store import Store

T = TypeVar("T")

# Made for the first secret, so that a store without secrets stays as other versions know it.
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS secret_values (
    name       TEXT PRIMARY KEY,
    sealed     BLOB NOT NULL,
    version    INTEGER NOT NULL,
    expires_at REAL
) WITHOUT ROWID
"""
_SELECT: Final = "SELECT name, sealed, version, expires_at FROM secret_values"
_LIVE: Final = "(expires_at IS NULL OR expires_at > ?)"


def secret_values(store: Store) -> ValueStore:
    """Where a store keeps secrets. The key of the store encrypts them, or what the environment has:
    a file refuses to keep one without a key. Raises `UsageError` for an invalid key.
    """
    if is_shared(store):
        return store
    if isinstance(store, SqliteStore):
        return SqliteValues(store.file, Cipher(store.secret_key or keys_from_environment()))
    return MemoryValues()


class MemoryValues:
    """Values of one process, gone with it."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._values: dict[str, SharedValue] = {}

    def value(self, name: str) -> SharedValue | None:
        """As `ValueStore.value`."""
        value = self._values.get(name)
        is_live = value is not None and (value.expires_at or float("inf")) > self._clock()
        return value if is_live else None

    def values(self, prefix: str) -> list[SharedValue]:
        """As `ValueStore.values`."""
        names = sorted(name for name in list(self._values) if name.startswith(prefix))
        return [value for name in names if (value := self.value(name)) is not None]

    def put_value(self, value: SharedValue, *, after: int | None) -> bool:
        """As `ValueStore.put_value`."""
        with self._lock:
            saved = self.value(value.name)
            if (None if saved is None else saved.version) != after:
                return False
            self._values[value.name] = value
            return True

    def delete_value(self, name: str) -> None:
        """As `ValueStore.delete_value`."""
        with self._lock:
            self._values.pop(name, None)


class SqliteValues:
    """Values in an SQLite file that several processes may share. Every one is encrypted."""

    def __init__(self, file: SqliteFile, cipher: Cipher, clock: Clock = time.time) -> None:
        self._file = file
        self._cipher = cipher
        self._clock = clock

    def value(self, name: str) -> SharedValue | None:
        """As `ValueStore.value`. Raises `StoreError`, also without the key."""
        rows = self._do(
            lambda connection: connection.execute(
                f"{_SELECT} WHERE name = ? AND {_LIVE}", (name, self._clock())
            ).fetchall()
        )
        return self._value(rows[0]) if rows else None

    def values(self, prefix: str) -> list[SharedValue]:
        """As `ValueStore.values`. Raises `StoreError`, also without the key."""
        rows = self._do(
            lambda connection: connection.execute(
                f"{_SELECT} WHERE substr(name, 1, ?) = ? AND {_LIVE} ORDER BY name",
                (len(prefix), prefix, self._clock()),
            ).fetchall()
        )
        return [self._value(row) for row in rows]

    def put_value(self, value: SharedValue, *, after: int | None) -> bool:
        """As `ValueStore.put_value`. Raises `StoreError`, also without a key."""
        sealed = self._cipher.seal(value.body, _place(value.name))
        fields = (value.name, sealed, value.version, value.expires_at)

        def put(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            if after is not None:
                changed = connection.execute(
                    "UPDATE secret_values SET name = ?, sealed = ?, version = ?, expires_at = ? "
                    f"WHERE name = ? AND version = ? AND {_LIVE}",
                    (*fields, value.name, after, now),
                )
                return changed.rowcount == 1
            connection.execute("DELETE FROM secret_values WHERE expires_at <= ?", (now,))
            added = connection.execute(
                "INSERT OR IGNORE INTO secret_values VALUES (?, ?, ?, ?)", fields
            )
            return added.rowcount == 1

        return self._do(put)

    def delete_value(self, name: str) -> None:
        """As `ValueStore.delete_value`. Raises `StoreError`."""
        self._do(
            lambda connection: connection.execute(
                "DELETE FROM secret_values WHERE name = ?", (name,)
            )
        )

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Work in one transaction on a connection of its own: this is rare."""
        connection = self._file.connect()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_TABLE)
            result = work(connection)
            connection.execute("COMMIT")
            return result
        except sqlite3.Error as error:
            raise self._file.explain(error) from error
        finally:
            # A transaction that is open is rolled back.
            connection.close()

    def _value(self, row: tuple[str, bytes, int, float | None]) -> SharedValue:
        name, sealed, version, expires_at = row
        body = self._cipher.open(sealed, _place(name))
        return SharedValue(name, body, version, expires_at, is_secret=True)


def _place(name: str) -> str:
    return f"secret value {name}"
