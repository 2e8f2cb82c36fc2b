"""Sessions with ledgers of any length, written as fast as a store takes them.

The records are those of one turn that a runtime really made, again and again: as many as a tool of
people who work in one session for years would leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolcrib import MemoryStore, RuntimeConfig, create_runtime
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.adapters.prompt_adapter import PromptAdapter
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry
from toolcrib.ledger.record import Head, Record, end_of, seal_payload
from toolcrib.store.store import Commit, SettingsKept, Store
from toolcrib.testing import ScriptedOpenAI, calls, says

Json = dict[str, Any]

_TURN = 800_000_001
"""The number of the turn that is repeated: nothing else in its records looks like it."""
_CALL = "call_of_turn_800000001"
_CALLS = 5
_AT_ONCE = 2_000
_TURN_SECONDS = 1e-3
"""How long a turn is after the one before: so many lie between now and the next minute."""
_NUMBERS: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


async def _add(arguments: Json, context: object) -> int:
    return arguments["a"] + arguments["b"]


def registry() -> HostToolRegistry:
    """The tools of the sessions."""
    tools = HostToolRegistry()
    tools.add(HostToolDefinition("add", "Add two numbers.", _NUMBERS, _add))
    return tools


@dataclass(frozen=True, slots=True)
class RepeatedTurn:
    """The records of a turn, whose number is to be put in."""

    records: tuple[Record, ...]

    def of_turn(self, turn: int) -> Iterator[tuple[Record, bytes]]:
        """Each record with the payload that it has in another turn."""
        for record in self.records:
            assert record.payload is not None
            yield record, record.payload.replace(b"%d" % _TURN, b"%d" % turn)


async def recorded_turn(adapter: PromptAdapter | None = None) -> RepeatedTurn:
    """The records of a turn with five calls, one after the other, and an answer."""
    steps = [[calls("add", {"a": n, "b": 2}, call_id=f"{_CALL}_{n}")] for n in range(_CALLS)]
    script = ScriptedOpenAI(*steps, [says("The sum is known.")])
    store = MemoryStore()
    config = RuntimeConfig(
        store=store,
        adapter=adapter or OpenAIAdapter(model="test-model", client=script.client()),
        host_tool_registry=registry(),
        on_session=lambda session: session.number_turns_after(_TURN - 1),
    )
    async with create_runtime(config) as runtime:
        facts = await runtime.ask("session.create", {})
        session_id = facts.session_id
        begin = store.head(session_id)
        result = await runtime.ask("prompt.send", {"session_id": session_id, "text": "Add them."})
        assert result.status == "completed", result
        records = tuple(store.records(session_id, after=begin.seq if begin else 0))
    kinds = ("prompt.", "model.", "call.", "tool.invoked")
    return RepeatedTurn(tuple(each for each in records if each.kind.startswith(kinds)))


def grow(store: Store, session_id: str, count: int, turn: RepeatedTurn) -> int:
    """Add turns to a session that nobody has open, until it has `count` records; returns how many
    turns it has then.
    """
    lease = store.acquire(session_id, create=False)
    try:
        info = store.session(session_id)
        number = int(info.settings.get("turn", 0))
        head, batch = info.head, list[Record]()
        while (head.seq if head else 0) < count:
            number += 1
            batch += _chained(turn, session_id, number, head)
            last = batch[-1]
            head = Head(session_id, last.seq, last.hash)
            if len(batch) >= _AT_ONCE:
                store.commit(lease, Commit(batch, ()))
                batch = []
        store.commit(lease, Commit(batch, [SettingsKept({**info.settings, "turn": number})]))
    finally:
        store.release(lease)
    return number


def _chained(
    turn: RepeatedTurn, session_id: str, number: int, head: Head | None
) -> Sequence[Record]:
    records: list[Record] = []
    seq, previous = end_of(head)
    for record, payload in turn.of_turn(number):
        call_id = record.call_id and record.call_id.replace(str(_TURN), str(number))
        at = record.at + number * _TURN_SECONDS
        sealed = seal_payload(session_id, record.kind, at, call_id, payload, seq + 1, previous)
        records.append(sealed)
        seq, previous = sealed.seq, sealed.hash
    return records


def with_times(turn: RepeatedTurn, at: float) -> RepeatedTurn:
    """The same turn at another time."""
    first = turn.records[0].at
    return RepeatedTurn(
        tuple(replace(record, at=at + record.at - first) for record in turn.records)
    )
