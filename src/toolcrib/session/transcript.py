"""The ledger as a person reads it, and the whole of results that the model saw only in part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import from_json, to_json

from toolcrib.approval.grant import PastCall
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDeferred,
    CallInDoubt,
    CallStarted,
    Event,
    ToolInvoked,
)
from toolcrib.ledger.prompt_events import (
    AnswerRejected,
    FilesCited,
    HistoryCompacted,
    ModelResponded,
    PromptStarted,
)
from toolcrib.ledger.question_events import QuestionAnswered, QuestionAsked, QuestionClosed
from toolcrib.ledger.record import MissingPayloads, Record
from toolcrib.prices.cost import Cost, CostPart

if TYPE_CHECKING:
    from toolcrib.store.store import Store
    from toolcrib.tools.citations import GeneratedFile


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a transcript: what was called, what it said, and what it gave."""

    at: float
    call_id: str
    tool: str
    what: str
    """`waiting`, `decided`, `asked`, `answered` or `unanswered` for questions, `in_doubt`, `prompt`
    when the call evaluates one, how the call ended (`completed` or a failure kind), `rejected` for
    an answer that did not fit its type, or `deleted` for records whose payloads were deleted.
    """
    text: str
    arguments: Any = None
    value: Any = None
    origin: str = "local"
    turn: int = 0
    """The turn of the call; of a prompt, the turn that it is."""
    parent_call_id: str | None = None
    """The call that this one is part of: made by its handler, or for a prompt it evaluates."""


def transcript(records: Iterable[Record]) -> tuple[Entry, ...]:
    """Entries for the events that a reader cares about. Deleted payloads leave one entry a gap.

    Raises `LedgerBroken` at a payload that is missing though no record says that it was deleted.
    """
    entries: list[Entry] = []
    tools: dict[str, str] = {}
    for event in _events_and_gaps(records):
        match event:
            case Entry():
                entries.append(event)
            case CallStarted():
                tools[event.call_id] = event.tool.name
            case PromptStarted(parent_call_id=str() as call_id):
                entries.append(
                    Entry(
                        event.at,
                        call_id,
                        event.parent_tool or tools.get(call_id, ""),
                        "prompt",
                        event.prompt_name,
                        turn=event.turn,
                    )
                )
            case ToolInvoked():
                entries.append(_invoked(event))
            case FilesCited():
                _add_files(entries, event)
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
                        turn=request.turn,
                        parent_call_id=request.parent_call_id,
                    )
                )
            case ApprovalDecided() | QuestionAsked() | QuestionAnswered() | QuestionClosed():
                entries.append(_of_person(event, tools.get(event.call_id, "")))
            case CallDeferred() | CallInDoubt() | AnswerRejected():
                entries.append(_remark(event))
            case _:
                pass
    return tuple(entries)


def _remark(event: CallDeferred | CallInDoubt | AnswerRejected) -> Entry:
    if isinstance(event, AnswerRejected):
        return Entry(event.at, "", "", "rejected", event.problem, turn=event.turn)
    name = event.tool.name
    if isinstance(event, CallInDoubt):
        return Entry(event.at, event.call_id, name, "in_doubt", "Not known to have run")
    text = "Its result comes from outside"
    return Entry(
        event.at,
        event.call_id,
        name,
        "waiting",
        text,
        arguments=event.params,
        turn=event.turn,
    )


def _of_person(
    event: ApprovalDecided | QuestionAsked | QuestionAnswered | QuestionClosed, tool: str
) -> Entry:
    """What a person decided, was asked or answered."""
    match event:
        case ApprovalDecided(decided=decided):
            who = f"{decided.decision.kind} by {decided.actor.kind} {decided.actor.name}"
            return Entry(event.at, event.call_id, tool, "decided", who)
        case QuestionAsked(question=question):
            name, text = question.tool.name, question.text
            parent = question.parent_call_id
            return Entry(
                event.at,
                event.call_id,
                name,
                "asked",
                text,
                turn=question.turn,
                parent_call_id=parent,
            )
        case QuestionAnswered(actor=actor):
            who = f"answered by {actor.kind} {actor.name}"
            return Entry(event.at, event.call_id, tool, "answered", who, value=event.value)
        case QuestionClosed():
            text = f"{event.why}: {event.reason}" if event.reason else event.why
            return Entry(event.at, event.call_id, tool, "unanswered", text)


def past_calls(store: Store, session_id: str, limit: int) -> Iterator[PastCall]:
    """The last calls of a session that ended, newest first, where their records are whole."""
    records = store.records(session_id, kinds=(ToolInvoked.kind,), limit=limit, newest_first=True)
    for record in records:
        event = record.event if record.payload is not None else None
        if not isinstance(event, ToolInvoked) or event.tool is None:
            continue
        arguments: object = event.params
        if isinstance(arguments, dict):
            shown = cast("dict[str, Any]", arguments)
            yield PastCall(session_id, event.call_id, event.at, event.tool, shown, event.principal)


def _events_and_gaps(records: Iterable[Record]) -> Iterator[Event | Entry]:
    missing = MissingPayloads()
    gap: list[Record] = []
    for record in records:
        missing.take(record)
        if record.payload is None:
            gap.append(record)
            continue
        if gap:
            yield _deleted(gap)
            gap = []
        yield record.event
    missing.check()


def _deleted(gap: list[Record]) -> Entry:
    first, last = gap[0], gap[-1]
    which = f"record {first.seq}" if first is last else f"records {first.seq} to {last.seq}"
    return Entry(first.at, "", "", "deleted", f"What {which} said was deleted")


def _add_files(entries: list[Entry], event: FilesCited) -> None:
    """Complete the entry of a call whose files a later message cites."""
    for index, entry in enumerate(entries):
        if entry.call_id == event.call_id and entry.turn == event.turn and entry.value is not None:
            entries[index] = replace(entry, value=_with_files(entry.value, event.files))


def _with_files(value: Any, files: Sequence[GeneratedFile]) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "files" in fields:
            return {**fields, "files": from_json(to_json(files))}
        return fields
    return value


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
        turn=event.turn,
        parent_call_id=event.parent_call_id,
    )


SPENDING_KINDS: Final = (ModelResponded.kind, ToolInvoked.kind, HistoryCompacted.kind)
"""The kinds of records that have a cost."""


def cost_in(happened: Iterable[Event], turn: int | None) -> Cost:
    """What these events cost, in all turns or in one; what has no known price is named."""
    cost = Cost()
    for event in happened:
        match event:
            # A summary is a prompt of its own, whose requests are counted.
            case HistoryCompacted(method="summary"):
                pass
            case ModelResponded() | HistoryCompacted() if turn in (None, event.turn):
                tokens = event.usage.get("input_tokens", 0) + event.usage.get("output_tokens", 0)
                unknown = CostPart("tokens", event.model or "", tokens, None)
                cost += event.cost or Cost((unknown,))
            case ToolInvoked(cost=Cost() as own) if turn in (None, event.turn):
                cost += own
            case _:
                pass
    return cost
