"""Rows of the index of calls on PostgreSQL: as arrays for one statement, and read back.

Each row is named by its session and its first record. Names lie in the rows as text: a table of
names would be one more thing that replicas have to agree on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from toolcrib.failures import FAILURE_KINDS
from toolcrib.store.call_codes import ACTORS, DECISIONS, KINDS, STATUSES, choice_of, code_of
from toolcrib.store.call_index import PromptFacts
from toolcrib.store.call_query import NANO, CallRow

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection, Row

_TYPES: Final[dict[str, str]] = {
    "seq": "bigint",
    "last_seq": "bigint",
    "kind": "smallint",
    "at": "double precision",
    "status": "smallint",
    "call_id": "text",
    "principal": "text",
    "transport": "text",
    "tool": "text",
    "source": "text",
    "model": "text",
    "failure": "smallint",
    "decision": "smallint",
    "decided_by": "smallint",
    "approver": "text",
    "duration": "double precision",
    "waited": "double precision",
    "parent": "text",
    "turn": "bigint",
    "input_tokens": "bigint",
    "output_tokens": "bigint",
    "nanos": "bigint",
    "prices": "text",
}
_NAMES: Final = ", ".join(_TYPES)
CALL_WIDTH: Final = 1 + len(_TYPES)
"""How many values `call_values` has: as many arrays go to `insert_calls`."""
ROW_FIELDS: Final = f"c.id, s.session_id, c.owner, {', '.join(f'c.{name}' for name in _TYPES)}"
"""What `call_row` reads, of `calls c` and `sessions s`."""
AT_PLACE: Final = 6
"""The place of the time in those fields; the number is the first."""

KEEP_PROMPTS: Final = """
INSERT INTO prompts (session, turn, principal, transport, provider, model, parent)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
    $7::text[])
ON CONFLICT (session, turn) DO UPDATE SET principal = excluded.principal,
    transport = excluded.transport, provider = excluded.provider, model = excluded.model,
    parent = excluded.parent
"""


def insert_calls(first: int) -> str:
    """The statement that writes rows, as a part of one that has `moved`: the place, number and
    owner of each session. Its arrays are the parameters from `first` on.
    """
    arrays = [f"${first}::bigint[]"]
    for place, kind in enumerate(_TYPES.values(), start=first + 1):
        arrays.append(f"${place}::{kind}[]")
    changes = ", ".join(f"{name} = excluded.{name}" for name in _TYPES if name != "seq")
    return f"""
    INSERT INTO calls (session, owner, {_NAMES})
    SELECT m.number, m.owner, {", ".join(f"c.{name}" for name in _TYPES)}
    FROM unnest({", ".join(arrays)}) WITH ORDINALITY AS c(place, {_NAMES}, nth)
    JOIN moved m USING (place) ORDER BY c.nth
    ON CONFLICT (session, seq) DO UPDATE SET {changes}
    """


def call_values(place: int, row: CallRow) -> Row:
    """A row of the session at a place in a group."""
    return (
        place,
        row.seq,
        row.last_seq,
        KINDS.index(row.kind),
        row.at,
        STATUSES.index(row.status),
        row.call_id,
        row.principal,
        row.transport,
        row.tool,
        row.source,
        row.model,
        code_of(FAILURE_KINDS, row.failure),
        code_of(DECISIONS, row.decision),
        code_of(ACTORS, row.decided_by),
        row.approver,
        row.duration_seconds,
        row.waited_seconds,
        row.parent_call_id,
        row.turn,
        row.input_tokens,
        row.output_tokens,
        None if row.cost is None else round(row.cost * NANO),
        row.prices,
    )


def call_row(row: Sequence[Any]) -> CallRow:
    """A row of `ROW_FIELDS`."""
    return CallRow(
        session_id=row[1],
        owner=row[2],
        seq=row[3],
        last_seq=row[4],
        kind=choice_of(KINDS, row[5]) or "tool",
        at=row[6],
        status=choice_of(STATUSES, row[7]) or "in_doubt",
        call_id=row[8],
        principal=row[9],
        transport=row[10],
        tool=row[11],
        source=row[12],
        model=row[13],
        failure=choice_of(FAILURE_KINDS, row[14]),
        decision=choice_of(DECISIONS, row[15]),
        decided_by=choice_of(ACTORS, row[16]),
        approver=row[17],
        duration_seconds=row[18],
        waited_seconds=row[19],
        parent_call_id=row[20],
        turn=row[21],
        input_tokens=row[22],
        output_tokens=row[23],
        cost=None if row[24] is None else row[24] / NANO,
        prices=row[25],
    )


def prompt_values(number: int, turn: int, facts: PromptFacts) -> Row:
    """What is kept of a prompt of a session."""
    about = (facts.principal, facts.transport, facts.provider, facts.model)
    return (number, turn, *about, facts.parent_call_id)


async def keep_prompts(connection: DatabaseConnection, rows: Sequence[Row]) -> None:
    """Write prompts."""
    if rows:
        await connection.execute(KEEP_PROMPTS, *zip(*rows, strict=True))
