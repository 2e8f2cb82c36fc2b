"""Commits of many sessions as one group: arrays for one statement that checks every lease and every
end, and writes what belongs to those that fit. A session that does not fit stays out alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, assert_never

from toolcrib.ledger.record import Record, check_follows
from toolcrib.store.cipher import Cipher
from toolcrib.store.codec import encode, encode_settings, packed_artifact
from toolcrib.store.postgres.call_rows import CALL_WIDTH, insert_calls
from toolcrib.store.postgres.group_index import COUNT_WIDTH
from toolcrib.store.postgres.inbox_query import searched_by
from toolcrib.store.store import (
    ApprovalFiled,
    ApprovalUsed,
    ArtifactKept,
    CallClosed,
    CallOpened,
    Commit,
    Effect,
    Lease,
    OpenCall,
    SettingsKept,
)

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection, Row
    from toolcrib.store.postgres.group_index import GroupIndex

# Every row names its session by its place in the group; `moved` has the places that fit. Columns of
# counts are named apart: `w.calls` would be a whole row of that table.
_BEGIN: Final = """
WITH wanted AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[],
        $6::bytea[], $22::text[], $23::text[], $24::bigint[], $25::bigint[], $26::bigint[],
        $27::bigint[]) WITH ORDINALITY
        AS w(session_id, fence, old_seq, old_hash, new_seq, new_hash, prompt, tool, more_prompts,
            more_calls, more_failures, more_nanos, place)
), moved AS (
    UPDATE sessions s SET head_seq = coalesce(w.new_seq, s.head_seq),
        head_hash = coalesce(w.new_hash, s.head_hash),
        first_prompt = coalesce(s.first_prompt, w.prompt),
        first_tool = coalesce(s.first_tool, w.tool),
        prompts = s.prompts + w.more_prompts, calls = s.calls + w.more_calls,
        failures = s.failures + w.more_failures,
        nanos = CASE WHEN w.more_nanos IS NULL THEN s.nanos
            ELSE coalesce(s.nanos, 0) + w.more_nanos END
    FROM wanted w
    WHERE s.session_id = w.session_id AND s.fence = w.fence AND s.replica_id IS NOT NULL
        AND (w.new_seq IS NULL OR (s.head_seq = w.old_seq AND s.head_hash = w.old_hash))
    RETURNING w.place, s.number, s.born, s.owner
), sealed AS MATERIALIZED (
    SELECT * FROM unnest($7::bigint[], $8::bigint[], $9::double precision[], $10::text[],
        $11::text[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[])
        AS r(place, seq, at, kind, call_id, payload, payload_digest, previous, hash)
    JOIN moved m USING (place)
), recorded AS (
    INSERT INTO records (born, session, seq, at, kind, call_id, payload_digest, previous, hash)
    SELECT born, number, seq, at, kind, call_id, payload_digest, previous, hash FROM sealed
), kept AS (
    INSERT INTO payloads (born, session, seq, payload)
    SELECT born, number, seq, payload FROM sealed WHERE payload IS NOT NULL
), closed AS (
    DELETE FROM open_calls o
    USING unnest($16::bigint[], $17::text[]) AS c(place, call_id) JOIN moved m USING (place)
    WHERE o.session = m.number AND o.call_id = c.call_id
), opened AS (
    INSERT INTO open_calls (session, call_id, fact, sealed)
    SELECT m.number, c.call_id, c.fact, c.sealed
    FROM unnest($18::bigint[], $19::text[], $20::bytea[], $21::bytea[]) WITH ORDINALITY
        AS c(place, call_id, fact, sealed, nth) JOIN moved m USING (place)
    ORDER BY c.nth
    ON CONFLICT (session, call_id) DO UPDATE SET fact = excluded.fact, sealed = excluded.sealed
)
"""
_END: Final = "SELECT place, number FROM moved"
_WRITE: Final = f"{_BEGIN} {_END}"
_WRITE_CALLS: Final = f"{_BEGIN}, indexed AS ({insert_calls(28)}) {_END}"
_FILE: Final = """
INSERT INTO approvals (session, approval_id, digest, state, request, deadline, tool, principal,
    groups, for_anyone)
SELECT f.session, f.approval_id, f.digest, 'pending', f.request, f.deadline, f.tool, f.principal,
    ARRAY(SELECT json_array_elements_text(f.groups::json)), f.for_anyone
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::double precision[], $6::text[],
    $7::text[], $8::text[], $9::boolean[])
    WITH ORDINALITY AS f(session, approval_id, digest, request, deadline, tool, principal, groups,
        for_anyone, nth) ORDER BY f.nth
"""
# A turn that waits for a request which is withdrawn goes on. One that somebody has locked is not
# waited for, which could be in a circle: the upkeep of the store finds it.
_USE: Final = """
WITH used AS (
    UPDATE approvals a SET state = 'used', sealed = NULL
    FROM unnest($1::bigint[], $2::text[]) AS u(session, approval_id)
    WHERE a.approval_id = u.approval_id AND a.session = u.session
    RETURNING a.session, a.approval_id
), waiting AS (
    SELECT t.turn_id FROM used u JOIN sessions s ON s.number = u.session
        JOIN turns t ON t.session_id = s.session_id
    WHERE t.state = 'waiting' AND u.approval_id = ANY(t.pending)
    FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE turns SET due_at = 0 WHERE turn_id IN (SELECT turn_id FROM waiting)
"""
_KEEP_ARTIFACTS: Final = """
INSERT INTO artifacts (session, artifact_id, call_id, body, is_packed)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::boolean[])
ON CONFLICT (session, artifact_id) DO UPDATE
SET call_id = excluded.call_id, body = excluded.body, is_packed = excluded.is_packed
"""
_KEEP_SETTINGS: Final = """
UPDATE sessions s SET settings = k.settings
FROM unnest($1::bigint[], $2::bytea[]) AS k(number, settings) WHERE s.number = k.number
"""


def open_call_place(session_id: str, call_id: str) -> str:
    """What the secrets of an open call are bound to."""
    return f"open call {session_id}/{call_id}"


class CommitGroup:
    """The rows of several commits, at most one of each session, sorted by table."""

    def __init__(self, commits: Sequence[tuple[Lease, Commit]], cipher: Cipher) -> None:
        self.commits = commits
        self._cipher = cipher
        self._heads: list[Row] = []
        self._records: list[Row] = []
        self._opened: dict[tuple[int, str], OpenCall] = {}
        self._closed: dict[tuple[int, str], None] = {}
        self._filed: list[Row] = []
        self._used: list[Row] = []
        self._artifacts: dict[tuple[int, str], Row] = {}
        self._settings: dict[int, bytes] = {}
        for place, (lease, commit) in enumerate(commits, start=1):
            self._add(place, lease, commit)

    async def write(self, connection: DatabaseConnection, index: GroupIndex) -> dict[int, int]:
        """Write what fits, with its rows of the index, in the transaction of the caller; returns
        the numbers of the sessions that fit, by their places.
        """
        opened = [
            (place, call_id, *self._fact(place, call))
            for (place, call_id), call in self._opened.items()
        ]
        # One that is closed and opened again is replaced: one statement touches a row only once.
        closed = [key for key in self._closed if key not in self._opened]
        counts = [index.count(place) for place in range(1, len(self.commits) + 1)]
        calls = index.rows()
        rows = await connection.fetch(
            _WRITE_CALLS if calls else _WRITE,
            *_columns(self._heads, 6),
            *_columns(self._records, 9),
            *_columns(closed, 2),
            *_columns(opened, 4),
            *_columns(counts, COUNT_WIDTH),
            *(_columns(calls, CALL_WIDTH) if calls else ()),
        )
        return {row[0]: row[1] for row in rows}

    @property
    def has_more(self) -> bool:
        """Whether `write_more` has something to do."""
        return bool(self._filed or self._used or self._artifacts or self._settings)

    async def write_more(self, connection: DatabaseConnection, numbers: dict[int, int]) -> None:
        """Write the rarer effects of the sessions that fit."""
        artifacts = [(*key, *rest) for key, rest in self._artifacts.items()]
        for statement, rows, width in (
            (_FILE, self._filed, 9),
            (_USE, self._used, 2),
            (_KEEP_ARTIFACTS, artifacts, 5),
            (_KEEP_SETTINGS, list(self._settings.items()), 2),
        ):
            fitting = [(numbers[row[0]], *row[1:]) for row in rows if row[0] in numbers]
            if fitting:
                await connection.execute(statement, *_columns(fitting, width))

    def _add(self, place: int, lease: Lease, commit: Commit) -> None:
        if commit.records:
            first, last = commit.records[0], commit.records[-1]
            check_follows(commit.records, lease.session_id, first.seq - 1, first.previous)
            ends = (first.seq - 1, _bytes(first.previous), last.seq, _bytes(last.hash))
            self._heads.append((lease.session_id, lease.fence, *ends))
            self._records.extend(_row(place, record) for record in commit.records)
        else:
            self._heads.append((lease.session_id, lease.fence, None, None, None, None))
        for effect in commit.effects:
            self._sort(place, effect)

    def _sort(self, place: int, effect: Effect) -> None:
        match effect:
            case CallOpened(call=call):
                self._opened[place, call.call_id] = call
            case CallClosed(call_id):
                # A call that opens and closes within one group never reaches the database.
                self._opened.pop((place, call_id), None)
                self._closed[place, call_id] = None
            case ApprovalFiled(request):
                key = (place, request.approval_id, request.digest)
                filed = (*key, encode(request), request.deadline, *searched_by(request))
                self._filed.append(filed)
            case ApprovalUsed(approval_id):
                self._used.append((place, approval_id))
            case ArtifactKept(artifact):
                packed = packed_artifact(artifact.text)
                body = packed if isinstance(packed, bytes) else _text_bytes(packed)
                row = (artifact.call_id, body, isinstance(packed, bytes))
                self._artifacts[place, artifact.artifact_id] = row
            case SettingsKept(settings):
                self._settings[place] = encode_settings(settings)
            case _:
                assert_never(effect)

    def _fact(self, place: int, call: OpenCall) -> tuple[bytes | None, bytes | None]:
        fact = encode(call)
        if not call.has_secrets:
            return fact, None
        session_id = self.commits[place - 1][0].session_id
        return None, self._cipher.seal(fact, open_call_place(session_id, call.call_id))


def _row(place: int, r: Record) -> Row:
    digests = (_bytes(r.payload_digest), _bytes(r.previous), _bytes(r.hash))
    return (place, r.seq, r.at, r.kind, r.call_id, r.payload, *digests)


def _columns(rows: Sequence[Row], width: int) -> Sequence[Sequence[object]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width


_bytes = bytes.fromhex


def _text_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
