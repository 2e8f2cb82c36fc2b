"""Listings and queries over all sessions of the store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from toolcrib.store.call_query import CallQuery, CallRow, PrincipalUse, SumKey, UsageSum
from toolcrib.store.codec import decode_settings
from toolcrib.store.postgres import call_reader, inbox_query, index_rebuild, reader
from toolcrib.store.postgres.access import PostgresAccess
from toolcrib.store.postgres.parameters import Parameters, findable
from toolcrib.store.postgres.summaries import SUMMARIES, TITLE_FIELDS, session_conditions
from toolcrib.store.session_query import (
    EVERY_SESSION,
    SessionQuery,
    SessionSummary,
    SessionWords,
    summary_of,
    titled,
)
from toolcrib.store.store import PAGE_SIZE, SessionInfo, StorePage

if TYPE_CHECKING:
    from toolcrib.store.approval_query import ApprovalQuery, InboxPage
    from toolcrib.store.postgres.database import DatabaseConnection, Row

_AT_ONCE: Final = 500
_Place = tuple[float, int]


class PostgresIndex(PostgresAccess):
    """What is found by the index, of all sessions."""

    def sessions(
        self,
        query: SessionQuery | None = None,
        *,
        cursor: str | None = None,
        limit: int = PAGE_SIZE,
    ) -> StorePage[SessionInfo]:
        """The sessions that a query asks for, or every session; oldest first unless it says so."""
        query = query or EVERY_SESSION
        created_at, number = (cursor or ("inf 0" if query.newest_first else "-inf 0")).split()
        place = (float(created_at), int(number))
        rows = self._search(lambda conn: self._session_rows(conn, query, place, limit + 1))
        last = rows[limit - 1] if len(rows) > limit else None
        end = None if last is None else f"{last[1]!r} {last[6]}"
        infos = (
            reader.session_info(row, uses_process_check=self._uses_process_check)
            for row in rows[:limit]
        )
        return StorePage(tuple(infos), end)

    async def _session_rows(
        self, connection: DatabaseConnection, query: SessionQuery, place: _Place, limit: int
    ) -> list[Row]:
        # Only Python folds letters of every alphabet, so that these words are looked for here.
        words = [word for word in query.words if not word.isascii()]
        tools: list[str] = []
        if query.tool is not None:
            tools = await call_reader.tool_names(connection, query.tool)
        found: list[Row] = []
        while len(found) < limit:
            count = _AT_ONCE if words else limit
            statement, put = sessions_statement(query, tools, (place, self._now()), count)
            rows = [tuple(row) for row in await connection.fetch(statement, *put.values)]
            found += [row for row in rows if not words or _words_of(row).have(words)]
            if len(rows) < count:
                break
            place = (rows[-1][1], rows[-1][6])
        return found[:limit]

    def summaries(self, session_ids: Collection[str]) -> dict[str, SessionSummary]:
        """The titles and counts of these sessions, as far as they are there."""
        names = [findable(each) for each in session_ids]
        return {row[0]: summary_of(row[1:]) for row in self._rows(SUMMARIES, names)}

    def calls(
        self, query: CallQuery, *, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> StorePage[CallRow]:
        """The calls of all sessions that a query asks for."""
        return self._search(
            lambda conn: call_reader.call_page(conn, self._cipher, query, cursor, limit)
        )

    def call_sums(self, query: CallQuery, key: SumKey) -> list[UsageSum]:
        """The sums of those calls."""
        return self._read(lambda conn: call_reader.call_sums(conn, query, key))

    def principals(self) -> list[PrincipalUse]:
        """What every principal has left."""
        return self._read(call_reader.principal_uses)

    def stray_calls(self) -> int:
        """How many rows of the index are of no record of their session; 0 unless the database was
        changed.
        """
        return int(self._rows(call_reader.STRAY)[0][0])

    def reindex(self) -> int:
        """Make the index of calls anew from the ledgers, with the prices of now; returns how many
        records it was made of. Each session in a transaction of its own: its writer waits so long.
        """
        prices, last, count = self._prices(), 0, 0
        while rows := self._rows(index_rebuild.SESSIONS, last):
            for (number,) in rows:
                count += self._transact(
                    lambda conn, number=number: index_rebuild.rebuild_session(conn, number, prices)
                )
                last = number
        self._run(self._forget_calls)
        return count

    def inbox(
        self, query: ApprovalQuery, *, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> InboxPage:
        """A page of the requests that a query asks for."""
        return self._search(
            lambda conn: inbox_query.inbox_page(conn, self._cipher, query, cursor, limit)
        )

    def inbox_marks(self, query: ApprovalQuery) -> dict[str, object]:
        """The ids of those requests, with their votes."""
        return self._search(lambda conn: inbox_query.inbox_marks(conn, query))

    def inbox_version(self) -> int:
        """Changes with every commit that changes a request, of whichever replica."""
        return int(self._rows(inbox_query.INBOX_VERSION)[0][0])


def sessions_statement(
    query: SessionQuery, tools: list[str], after: tuple[_Place, float | None], limit: int
) -> tuple[str, Parameters]:
    """The statement of a page of sessions, from a place at a time on. `tools` are the names of the
    tools that the query asks for.
    """
    (created_at, number), now = after
    put = Parameters(now)
    order, sign = ("DESC", "<") if query.newest_first else ("ASC", ">")
    place = f"({put(created_at)}::double precision, {put(number)}::bigint)"
    conditions = [f"(s.created_at, s.number) {sign} {place}"]
    conditions += session_conditions(query, tools, put)
    return (
        f"SELECT {reader.SESSION_FIELDS}, {TITLE_FIELDS} FROM sessions s"
        f" WHERE {' AND '.join(conditions)}"
        f" ORDER BY s.created_at {order}, s.number {order} LIMIT {put(limit)}",
        put,
    )


def _words_of(row: Row) -> SessionWords:
    *_, prompt, tool = row
    title, _ = titled(prompt, tool)
    settings: dict[str, Any] = decode_settings(row[2])
    return SessionWords(row[0], row[5], title, settings)
