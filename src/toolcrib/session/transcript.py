"""The transcript: the ledger as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from toolcrib.session.events import ApprovalDecided, ApprovalRequested, CallInDoubt, ToolInvoked
from toolcrib.session.record import Record, events


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a transcript: what was called, what it said, and what it gave."""

    at: float
    call_id: str
    tool: str
    what: str
    """`waiting`, `decided`, `in_doubt`, or how the call ended: `completed` or a failure kind."""
    text: str
    arguments: Any = None
    value: Any = None
    origin: str = "local"


def transcript(records: Iterable[Record]) -> tuple[Entry, ...]:
    """Entries for the events that a reader cares about. Deleted payloads leave no entry."""
    entries: list[Entry] = []
    tools: dict[str, str] = {}
    for event in events(records):
        match event:
            case ToolInvoked():
                entries.append(_invoked(event))
            case ApprovalRequested(request=request):
                tools[event.call_id] = request.tool.name
                entries.append(
                    Entry(
                        event.at,
                        event.call_id,
                        request.tool.name,
                        "waiting",
                        request.reason,
                        arguments=request.arguments,
                    )
                )
            case ApprovalDecided(decided=decided):
                who = f"{decided.decision.kind} by {decided.actor.kind} {decided.actor.name}"
                name = tools.get(event.call_id, "")
                entries.append(Entry(event.at, event.call_id, name, "decided", who))
            case CallInDoubt():
                entries.append(
                    Entry(
                        event.at,
                        event.call_id,
                        event.tool.name,
                        "in_doubt",
                        "Not known to have run",
                    )
                )
            case _:
                pass
    return tuple(entries)


def _invoked(event: ToolInvoked) -> Entry:
    return Entry(
        event.at,
        event.call_id,
        event.name,
        event.failure.kind if event.failure else "completed",
        event.message,
        arguments=event.params,
        value=event.value,
        origin=event.origin,
    )
