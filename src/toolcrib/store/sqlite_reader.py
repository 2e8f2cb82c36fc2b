"""Reads of committed data, on a connection of their own so that they never wait for the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from threading import Lock
from types import NoneType
from typing import Any

from toolcrib.clock import Clock
from toolcrib.errors import LedgerBroken, SessionNotFound, StoreError
from toolcrib.ledger.record import Head, Record
from toolcrib.store.codec import decode_open_call, decode_settings
from toolcrib.store.leases import is_held
from toolcrib.store.record_marks import MARKED_LIST, first_rows, marked, more_rows
from toolcrib.store.session_query import SessionQuery, SessionSummary, summary_of
from toolcrib.store.sqlite_schema import SqliteFile
from toolcrib.store.sqlite_summaries import (
    casefold,
    session_conditions,
    summaries_statement,
)
from toolcrib.store.store import OpenCall, SessionInfo, StorePage
from toolcrib.store.vault import Vault

Row = tuple[Any, ...]

_SESSIONS = (
    "SELECT s.session_id, s.created_at, s.settings, s.head_seq, s.head_hash, s.holder,"
    " s.expires_at, s.owner, s.rowid FROM sessions s"
)
_FIELDS = (
    "SELECT r.session_id, r.seq, r.kind, r.at, r.call_id, p.payload, r.payload_digest, r.previous,"
    " r.hash FROM records r"
)
_JOINED = "LEFT JOIN payloads p ON p.id = r.id"
_RECORDS = f"{_FIELDS} {_JOINED} WHERE r.session_id = ?1 AND r.seq > ?2 AND r.seq < ?3"
_MARKED_FIELDS = _FIELDS.replace(" FROM records r", "")
ENDED_CALL = (
    f"{_FIELDS} INDEXED BY ended_calls LEFT JOIN payloads p ON p.id = r.id"
    " WHERE r.session_id = ? AND r.call_id = ? AND r.kind = 'tool.invoked'"
    " ORDER BY r.id DESC LIMIT 1"
)
_IS_OPEN = "SELECT 1 FROM open_calls WHERE session_id = ? AND call_id = ?"
_NO_END = 2**63 - 1
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
        return self._use(lambda connection: connection.execute(statement, parameters).fetchall())

    def _use(self, read: Callable[[sqlite3.Connection], list[Row]]) -> list[Row]:
        with self._lock:
            if self._connection is None:
                raise StoreError(f"the store {self._file.path} is closed; open it again")
            try:
                return read(self._connection)
            except sqlite3.Error as error:
                raise self._file.explain(error) from error

    def sessions(
        self, query: SessionQuery, cursor: str | None, limit: int
    ) -> StorePage[SessionInfo]:
        """A page of the sessions that a query asks for."""
        order, sign = ("DESC", "<") if query.newest_first else ("ASC", ">")
        created_at, row_id = (cursor or ("inf 0" if query.newest_first else "-inf 0")).split()
        place = (f"(s.created_at, s.rowid) {sign} (?, ?)", (float(created_at), int(row_id)))

        def read(connection: sqlite3.Connection) -> list[Row]:
            wanted = [place, *session_conditions(connection, query)]
            where = " AND ".join(condition for condition, _ in wanted)
            parameters = [value for _, values in wanted for value in values]
            return connection.execute(
                f"{_SESSIONS} LEFT JOIN summaries m ON m.session_id = s.session_id WHERE {where}"
                f" ORDER BY s.created_at {order}, s.rowid {order} LIMIT ?",
                (*parameters, limit + 1),
            ).fetchall()

        rows = self._search(read) if query.reads_index else self._use(read)
        end = f"{rows[limit - 1][1]!r} {rows[limit - 1][-1]}" if len(rows) > limit else None
        return StorePage(tuple(self._info(row) for row in rows[:limit]), end)

    def summaries(self, session_ids: Collection[str]) -> dict[str, SessionSummary]:
        """The titles and counts of these sessions."""
        rows = self.rows(summaries_statement(session_ids), *session_ids)
        return {row[0]: summary_of(row[1:]) for row in rows}

    def _search(self, read: Callable[[sqlite3.Connection], list[Row]]) -> list[Row]:
        """Read on a connection of its own: a search may take long, and delays no other read."""
        connection = self._file.connect(read_only=True)
        try:
            connection.create_function("casefold", 1, casefold, deterministic=True)
            return read(connection)
        except sqlite3.Error as error:
            raise self._file.explain(error) from error
        finally:
            connection.close()

    def numbered_page(
        self, statement: str, parameters: tuple[object, ...], cursor: str | None, limit: int
    ) -> tuple[list[Row], str | None]:
        """A page of rows that begin with their number, and the cursor after it. The statement
        takes the last number before the page, and how many rows, after its own parameters.
        """
        rows = self.rows(statement, *parameters, int(cursor or 0), limit + 1)
        end = str(rows[limit - 1][0]) if len(rows) > limit else None
        return rows[:limit], end

    def session(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        rows = self.rows(f"{_SESSIONS} WHERE s.session_id = ?", session_id)
        if not rows:
            raise SessionNotFound(f"there is no session {session_id!r} in {self._file.path}")
        return self._info(rows[0])

    def records(
        self,
        session_id: str,
        after: int,
        *,
        before: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        """Records in order, some rows at a time: a ledger is not loaded whole."""
        statement = records_statement(kinds, newest_first=newest_first)
        names = () if marked(kinds) else sorted(set(kinds or ()))
        before = _NO_END if before is None else before
        left = _NO_END if limit is None else limit
        most = first_rows(newest_first=newest_first)
        while left > 0:
            count = min(left, most)
            rows = self.rows(statement, session_id, after, before, count, *names)
            for row in rows:
                yield _record(row)
            if len(rows) < count:
                return
            left -= count
            most = more_rows(most)
            last = rows[-1][1]
            after, before = (after, last) if newest_first else (last, before)

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

    def known_call(self, session_id: str, call_id: str) -> OpenCall | Record | None:
        """An open call or the end of one, by its id."""
        ended = self.rows(ENDED_CALL, session_id, call_id)
        if ended:
            return _record(ended[0])
        if self.rows(_IS_OPEN, session_id, call_id):
            calls = [call for call in self.open_calls(session_id) if call.call_id == call_id]
            # None when it was closed since; then its end is there by now.
            return calls[0] if calls else self.known_call(session_id, call_id)
        return None

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
        session_id, created_at, settings, seq, digest, holder, expires_at, owner, _ = row
        return SessionInfo(
            session_id,
            created_at,
            Head(session_id, seq, digest) if seq else None,
            decode_settings(settings),
            is_held(holder, expires_at, self._clock()),
            owner,
        )


def records_statement(kinds: Collection[str] | None, *, newest_first: bool) -> str:
    """The statement for some records: of a session ?1, after ?2 and before ?3, at most ?4, and of
    the kinds that follow, unless an index has them all.
    """
    order = "DESC" if newest_first else "ASC"
    names = marked(kinds)
    if not names:
        numbers = ", ".join(f"?{number}" for number in range(5, 5 + len(set(kinds or ()))))
        of_kinds = "" if kinds is None else f" AND r.kind IN ({numbers})"
        return f"{_RECORDS}{of_kinds} ORDER BY r.seq {order} LIMIT ?4"
    # The newest of each kind by the index, then the newest of these: nothing between is read. A
    # partial index is used only where its condition is written out.
    of_each = " UNION ALL ".join(
        "SELECT * FROM (SELECT id, seq FROM records INDEXED BY marked_records"
        f" WHERE session_id = ?1 AND kind = '{name}' AND kind IN ({MARKED_LIST})"
        " AND seq > ?2 AND seq < ?3"
        f" ORDER BY seq {order} LIMIT ?4)"
        for name in names
    )
    wanted = f"SELECT id FROM ({of_each}) ORDER BY seq {order} LIMIT ?4"
    return (
        f"{_MARKED_FIELDS} FROM ({wanted}) m CROSS JOIN records r ON r.id = m.id {_JOINED}"
        f" ORDER BY r.seq {order}"
    )


def _record(row: Row) -> Record:
    # SQLite lets an editor put any type into any column; a hash is over exact types only.
    if tuple(map(type, row)) not in _RECORD_SHAPES:
        raise LedgerBroken(f"record {row[1]} was changed: a field has another type", seq=row[1])
    return Record(*row)
