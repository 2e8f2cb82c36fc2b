"""Sessions, records and open calls, read from their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import SessionNotFound
from toolcrib.ledger.record import Head, Record
from toolcrib.store.cipher import Cipher
from toolcrib.store.codec import decode_open_call, decode_settings
from toolcrib.store.leases import Holder, is_gone
from toolcrib.store.postgres.commit_group import open_call_place
from toolcrib.store.postgres.lease_rows import NOW
from toolcrib.store.postgres.parameters import findable
from toolcrib.store.record_marks import marked
from toolcrib.store.store import OpenCall, SessionInfo

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

NO_END: Final = 2**63 - 1
SESSION_FIELDS: Final = f"""
s.session_id, s.created_at, s.settings, s.head_seq, s.head_hash, s.owner, s.number, s.born,
(SELECT r.process FROM replicas r WHERE r.replica_id = s.replica_id AND r.expires_at > {NOW})
"""
"""What `session_info` reads, of `sessions s`. The first parameter is the time."""
SESSION: Final = f"SELECT {SESSION_FIELDS} FROM sessions s WHERE s.session_id = $2"
_FIELDS: Final = """
r.seq, r.kind, r.at, r.call_id, (
    SELECT p.payload FROM payloads p
    WHERE p.born = r.born AND p.session = r.session AND p.seq = r.seq
), r.payload_digest, r.previous, r.hash
"""
"""A payload is looked up for each row that is read: a join of tables that nobody has analysed yet
would read all payloads.
"""
_RECORD_FIELDS: Final = f"SELECT {_FIELDS} FROM records r"
_PLACE: Final = "WHERE r.born = $1 AND r.session = $2 AND r.seq > $3 AND r.seq < $4"
_OF_KINDS: Final = "AND r.kind = ANY($6::text[])"
_KNOWN: Final = f"""
SELECT o.call_id, o.fact, o.sealed, e.* FROM sessions s
LEFT JOIN open_calls o ON o.session = s.number AND o.call_id = $2
LEFT JOIN LATERAL (
    {_RECORD_FIELDS} WHERE r.born = s.born AND r.session = s.number AND r.call_id = $2
    AND r.kind = 'tool.invoked' ORDER BY r.seq DESC LIMIT 1
) e ON true WHERE s.session_id = $1
"""
"""In one statement: every call with an id of a model's asks for it."""
_OPEN_CALLS: Final = """
SELECT o.call_id, o.fact, o.sealed FROM open_calls o JOIN sessions s ON s.number = o.session
WHERE s.session_id = $1 ORDER BY o.opened
"""


def session_info(row: Sequence[Any], *, uses_process_check: bool) -> SessionInfo:
    """A row of `SESSION_FIELDS`."""
    session_id, created_at, settings, seq, digest, owner, _, _, process = row[:9]
    holder = None if process is None else Holder.parse(process)
    is_dead = uses_process_check and holder is not None and is_gone(holder)
    return SessionInfo(
        session_id,
        created_at,
        Head(session_id, seq, digest.hex()) if seq else None,
        decode_settings(settings),
        process is not None and not is_dead,
        owner,
    )


async def session_row(
    connection: DatabaseConnection, session_id: str, now: float | None
) -> Sequence[Any]:
    """The row of one session. Raises `SessionNotFound`."""
    row = await connection.fetchrow(SESSION, now, findable(session_id))
    if row is None:
        raise SessionNotFound(f"there is no session {session_id!r}")
    return tuple(row)


async def read_records(
    connection: DatabaseConnection,
    session: tuple[str, int, int],
    bounds: tuple[int, int],
    kinds: Collection[str] | None,
    limit: int,
    *,
    newest_first: bool,
) -> list[Record]:
    """Some records of a session, which is given by its id, birth and number."""
    session_id, born, number = session
    statement = records_statement(kinds, newest_first=newest_first)
    names = () if kinds is None or marked(kinds) else (sorted(kinds),)
    rows = await connection.fetch(statement, born, number, *bounds, limit, *names)
    return [_record(session_id, tuple(row)) for row in rows]


def records_statement(kinds: Collection[str] | None, *, newest_first: bool) -> str:
    """The statement for some records: born in $1, of the session $2, after $3 and before $4, at
    most $5, and of the kinds $6, unless an index has them all.
    """
    order = "DESC" if newest_first else "ASC"
    names = marked(kinds)
    if not names:
        of_kinds = "" if kinds is None else _OF_KINDS
        return f"{_RECORD_FIELDS} {_PLACE} {of_kinds} ORDER BY r.seq {order} LIMIT $5"
    # The newest of each kind by the index, then the newest of these: nothing between is read. A
    # partial index is used only for kinds that are written out.
    of_each = " UNION ALL ".join(
        f"(SELECT r.* FROM records r {_PLACE} AND r.kind = '{name}'"
        f" ORDER BY r.kind {order}, r.seq {order} LIMIT $5)"
        for name in names
    )
    wanted = f"SELECT * FROM ({of_each}) m ORDER BY m.seq {order} LIMIT $5"
    return f"SELECT {_FIELDS} FROM ({wanted}) r ORDER BY r.seq {order}"


async def known_call(
    connection: DatabaseConnection, session_id: str, call_id: str, cipher: Cipher
) -> OpenCall | Record | None:
    """An open call or the end of one, by its id."""
    row = await connection.fetchrow(_KNOWN, findable(session_id), findable(call_id))
    if row is None:
        return None
    name, fact, sealed, *ended = row
    if ended[0] is not None:
        return _record(session_id, ended)
    return None if name is None else _open_call(session_id, name, fact, sealed, cipher)


async def read_open_calls(
    connection: DatabaseConnection, session_id: str, cipher: Cipher
) -> list[OpenCall]:
    """Open calls with their arguments, decrypted where they are secret."""
    rows = await connection.fetch(_OPEN_CALLS, findable(session_id))
    return [_open_call(session_id, row[0], row[1], row[2], cipher) for row in rows]


def _open_call(
    session_id: str, call_id: str, fact: bytes, sealed: bytes | None, cipher: Cipher
) -> OpenCall:
    place = open_call_place(session_id, call_id)
    return decode_open_call(fact if sealed is None else cipher.open(sealed, place))


def _record(session_id: str, row: Sequence[Any]) -> Record:
    seq, kind, at, call_id, payload, payload_digest, previous, digest = row
    return Record(
        session_id,
        seq,
        kind,
        at,
        call_id,
        payload,
        payload_digest.hex(),
        previous.hex(),
        digest.hex(),
    )
