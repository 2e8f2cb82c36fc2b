"""The calls of one session that have not ended, in the memory of the replica that writes it.

Nobody else writes the session while the lease holds, so that what was read once stays true: a
commit asks the database nothing before it is written.
"""

from __future__ import annotations

from typing import Final

from toolcrib.ledger.encoding import read_payload
from toolcrib.ledger.events import CallInDoubt, CallStarted, ToolInvoked
from toolcrib.ledger.prompt_events import ModelResponded
from toolcrib.ledger.record import Record
from toolcrib.prices.table import Prices
from toolcrib.store.call_index import (
    PROMPT_KINDS,
    PromptFacts,
    Spent,
    add_spent,
    changed_row,
    model_row,
    prompt_facts,
    resumed,
    with_spent,
)
from toolcrib.store.call_query import OPEN_STATUSES, CallRow, is_hosted
from toolcrib.store.session_query import SessionCount

_MOST_PROMPTS: Final = 64


class IndexedSession:
    """Makes rows of the index out of records, in order; they wait until `clear`."""

    def __init__(self, fence: int, *, is_new: bool) -> None:
        self.fence = fence
        self.open: dict[str, CallRow] = {}
        """The rows of calls that have not ended, by id."""
        self.started: dict[str, Record] = {}
        """The starts of calls of which nothing else is known."""
        self.spent: dict[str, Spent] = {}
        """What was spent within calls that have not ended."""
        self.prompts: dict[int, PromptFacts] = {}
        self.knows_prompts = is_new
        """Whether a prompt that is not here is nowhere."""
        self.rows: dict[int, CallRow] = {}
        """The rows that changed, by their first records."""
        self.kept_prompts: dict[int, PromptFacts] = {}
        self.count = SessionCount()

    def take(self, record: Record, prices: Prices | None, *, is_repriced: bool = False) -> None:
        """Take the next record of a kind that the index is made of. `prices` are needed for
        requests to models.
        """
        if record.payload is None:
            return
        if record.kind in PROMPT_KINDS:
            self._keep_prompt(record)
        elif record.kind == ModelResponded.kind:
            turn = read_payload(record.payload).get("turn") or 0
            assert prices is not None
            row = model_row(record, self.prompts.get(turn), None, prices, is_repriced=is_repriced)
            self.rows[row.seq] = row
            self.count.take_row(None, row)
            self._add_spent(row)
        elif record.call_id is not None:
            self._change(record.call_id, record)

    def clear(self) -> None:
        """Forget what waited: it was written."""
        self.rows, self.kept_prompts, self.count = {}, {}, SessionCount()
        while len(self.prompts) > _MOST_PROMPTS:
            self.knows_prompts = False
            del self.prompts[next(iter(self.prompts))]

    def _change(self, call_id: str, record: Record) -> None:
        known = counted = self.open.get(call_id)
        if known is None and record.kind == CallStarted.kind:
            # A start alone is no row: while it runs, the call lies in the table of open calls.
            self.started[call_id] = record
            return
        start = self.started.pop(call_id, None)
        if known is None and start is not None and record.kind == CallInDoubt.kind:
            known = changed_row(None, start, None)
        row = changed_row(known, record, None)
        if row is None:
            return
        if row.status in OPEN_STATUSES:
            self.open[call_id] = row
        else:
            self.open.pop(call_id, None)
            spent = None if is_hosted(row) else self.spent.pop(call_id, None)
            if spent is not None:
                row = with_spent(row, spent)
            self._add_spent(row)
        self.count.take_row(counted, row)
        self.rows[row.seq] = row

    def _add_spent(self, row: CallRow) -> None:
        """Add what a row spent to the call that it is part of."""
        if row.parent_call_id is not None and row.input_tokens is not None:
            spent = self.spent.get(row.parent_call_id, Spent())
            self.spent[row.parent_call_id] = add_spent(spent, row)

    def _keep_prompt(self, record: Record) -> None:
        facts = read_payload(record.payload or b"{}")
        self.count.take_prompt(record, facts)
        turn = facts.get("turn") or 0
        prompt = resumed(self.prompts.pop(turn, None), prompt_facts(record))
        self.prompts[turn] = self.kept_prompts[turn] = prompt


def turns_needed(calls: IndexedSession, records: list[Record]) -> set[int]:
    """The turns whose prompts have to be read before these records are taken."""
    if calls.knows_prompts:
        return set()
    kinds = (*PROMPT_KINDS, ModelResponded.kind)
    turns = {
        read_payload(record.payload or b"{}").get("turn") or 0
        for record in records
        if record.kind in kinds
    }
    return turns - calls.prompts.keys()


def starts_needed(calls: IndexedSession, records: list[Record]) -> set[str]:
    """The calls whose starts have to be read before these records are taken."""
    known = calls.open.keys() | calls.started.keys()
    doubtful = {r.call_id for r in records if r.kind == CallInDoubt.kind and r.call_id is not None}
    started = {r.call_id for r in records if r.kind in (CallStarted.kind, ToolInvoked.kind)}
    return doubtful - known - started
