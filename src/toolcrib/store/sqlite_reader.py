"""Reads of committed data, on a connection of their own so that they never wait for the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from threading import Lock
from types import NoneType
from typing import Any

from toolcrib.clock import Clock
from toolcrib.errors import LedgerBroken, SessionNotFound, StoreError
from toolcrib.ledger.record import Head, Record
from toolcrib.store.codec import decode_open_call, decode_settings
from toolcrib.store.leases import is_held
from toolcrib.store.sqlite_schema import SqliteFile
from toolcrib.store.store import OpenCall, SessionInfo
from toolcrib.store.vault import Vault

Row = tuple[Any, ...]

_PAGE = 500
_SESSIONS = (
    "SELECT session_id, created_at, settings, head_seq, head_hash, holder, expires_at FROM sessions"
)
_RECORDS = (
    "SELECT r.session_id, r.seq, r.kind, r.at, r.call_id, p.payload, r.payload_digest, r.previous,"
    " r.hash FROM records r LEFT JOIN payloads p ON p.id = r.id"
    " WHERE r.session_id = ? AND r.seq > ? ORDER BY r.seq LIMIT ?"
)
_OPEN_CALLS = "SELECT fact, vault FROM open_calls WHERE session_id = ? ORDER BY opened"
_RECORD_SHAPES = {
    (str, int, str, float, call_id, payload, str, str, str)
    for call_id in (str, NoneType)
    for payload in (bytes, NoneType)
}


class Reader:
    """One connection behind a lock; a read takes it for one statement."""

    def __init__(self, file: SqliteFile, vault: Vault, clock: Clock) -> None:
        self._file = file
        self._vault = vault
        self._clock = clock
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = file.connect(read_only=True)

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        """Every row of one query."""
        with self._lock:
            if self._connection is None:
                raise StoreError(f"the store {self._file.path} is closed; open it again")
            try:
                return self._connection.execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                raise self._file.explain(error) from error

    def sessions(self) -> list[SessionInfo]:
        """Every session, oldest first."""
        return [self._info(row) for row in self.rows(f"{_SESSIONS} ORDER BY created_at, rowid")]

    def session(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        rows = self.rows(f"{_SESSIONS} WHERE session_id = ?", session_id)
        if not rows:
            raise SessionNotFound(f"there is no session {session_id!r} in {self._file.path}")
        return self._info(rows[0])

    def records(self, session_id: str, after: int) -> Iterator[Record]:
        """Records in order, a page at a time: a ledger is not loaded whole."""
        while rows := self.rows(_RECORDS, session_id, after, _PAGE):
            for row in rows:
                yield _record(row)
            after = rows[-1][1]

    def open_calls(self, session_id: str) -> list[OpenCall]:
        """Open calls with their arguments, wherever those lie."""
        try:
            return self._open_calls(session_id)
        except FileNotFoundError:
            # The call may have been closed between the two looks; then its row is gone as well.
            pass
        try:
            return self._open_calls(session_id)
        except FileNotFoundError as error:
            raise StoreError(
                f"the arguments of an open call of session {session_id!r} are not at "
                f"{error.filename}; a copy of {self._file.path} needs the files beside it too"
            ) from error

    def close(self) -> None:
        """End reading."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open_calls(self, session_id: str) -> list[OpenCall]:
        return [
            decode_open_call(fact if vault is None else self._vault.read(vault))
            for fact, vault in self.rows(_OPEN_CALLS, session_id)
        ]

    def _info(self, row: Row) -> SessionInfo:
        session_id, created_at, settings, seq, digest, holder, expires_at = row
        return SessionInfo(
            session_id,
            created_at,
            Head(session_id, seq, digest) if seq else None,
            decode_settings(settings),
            is_held(holder, expires_at, self._clock()),
        )


def _record(row: Row) -> Record:
    # SQLite lets an editor put any type into any column; a hash is over exact types only.
    if tuple(map(type, row)) not in _RECORD_SHAPES:
        raise LedgerBroken(f"record {row[1]} was changed: a field has another type", seq=row[1])
    return Record(*row)
