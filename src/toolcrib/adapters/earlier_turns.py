"""The turns before a prompt that follows them, said again from the session's ledger.

A provider that keeps the history gets the id of its last response. Else everything is said again as
it was: prompts with their attachments, replies verbatim, outputs of calls. What cannot be said
again is listed in `Conversation.omitted`, and the turn records it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from toolcrib.adapters.attachments import contents_again
from toolcrib.adapters.history import (
    LOST,
    Conversation,
    History,
    TurnStep,
    correction,
    steps_of,
    whole_event,
)
from toolcrib.adapters.items import (
    Item,
    PromptContent,
    TextContent,
    ToolCallEnd,
    UploadedFile,
    UserMessage,
    tool_calls,
)
from toolcrib.calls.recorded_call import repeated_id
from toolcrib.ledger.events import Event, PayloadsDeleted, ToolInvoked
from toolcrib.ledger.prompt_events import (
    AnswerRejected,
    ContainerExpired,
    FilesStaged,
    HistoryCompacted,
    KeptAttachment,
    ModelResponded,
    ModelStatus,
    OmittedItem,
    PromptAnswered,
    PromptStarted,
)
from toolcrib.ledger.record import Record
from toolcrib.session.placed_events import placed_events

if TYPE_CHECKING:
    from toolcrib.adapters.tool_calls import ItemClassifier
    from toolcrib.session.session import Session

_MARKS: Final = (
    PromptStarted.kind,
    PromptAnswered.kind,
    ModelResponded.kind,
    AnswerRejected.kind,
    FilesStaged.kind,
    ContainerExpired.kind,
    HistoryCompacted.kind,
    PayloadsDeleted.kind,
)
"""What is looked for: a store has an index of it, so that calls which clients made meanwhile are
not read.
"""
_USABLE: Final = frozenset({"completed", "paused"})

_LATER_CALLS: Final = 100
"""How many calls after the last reply of a turn without an answer may be the turn's; further ones
are looked for by their ids.
"""

UNENDED: Final = ToolCallEnd(
    "This call had not ended when the conversation went on.", success=False, failure="unavailable"
)
"""The end of a call of a turn that stopped before its answer."""


@dataclass(slots=True)
class EarlierTurn:
    """A turn of the session, as far as its events were read."""

    number: int
    started: PromptStarted | None = None
    answered: PromptAnswered | None = None
    staged: FilesStaged | None = None
    ended_at: int | None = None
    """The record of its answer."""
    events: list[tuple[int, Event]] = field(default_factory=list[tuple[int, Event]])
    """Its replies, and what was said of them, each with the number of its record."""
    steps: list[TurnStep] = field(default_factory=list[TurnStep])
    """The replies from which something follows, with their calls."""
    last_status: ModelStatus | None = None
    """The status of its last reply."""

    def read_steps(self, calls: Iterable[tuple[int, Event]]) -> None:
        """Read the steps from the events and the calls that ended in the turn."""
        ordered = sorted([*self.events, *calls], key=lambda placed: placed[0])
        steps = steps_of((event for _, event in ordered), self.started) if self.started else []
        self.steps = [step for step in steps if step.response.status in _USABLE]
        self.last_status = steps[-1].response.status if steps else None


@dataclass(frozen=True, slots=True)
class EarlierTurns:
    """What the ledger has of the turns that a prompt follows, oldest first."""

    turns: list[EarlierTurn]
    compacted: HistoryCompacted | None = None
    """What they start from, in place of the turns before."""
    expired: frozenset[str] = frozenset()
    """Containers of these turns that are known to be gone."""
    is_deleted_before: bool = False
    """Whether the payloads of all turns before these were deleted."""


def read_earlier_turns(
    session: Session, provider: str, history: History, turn: int
) -> EarlierTurns:
    """Read back from the end of the ledger: to the last turn that the provider can continue by
    itself; with a history that we keep, to the last compaction. May touch the disk.
    """
    turns: dict[int, EarlierTurn] = {}
    last_ids: dict[int, str | None] = {}
    expired: set[str] = set()
    compacted: HistoryCompacted | None = None
    is_deleted = False
    is_by_id = history == "server"
    for seq, event in placed_events(session, kinds=_MARKS):
        if isinstance(event, PayloadsDeleted):
            is_deleted = True
            break
        number: int = getattr(event, "turn", 0)
        if number >= turn:
            continue
        if isinstance(event, HistoryCompacted):
            if event.method == "provider" and event.adapter != provider:
                # Only who made it can read it.
                continue
            compacted = event
            break
        whole = whole_event(session, event)
        _add(turns.setdefault(number, EarlierTurn(number)), seq, whole, expired)
        if isinstance(event, ModelResponded) and event.status in _USABLE:
            last_ids.setdefault(number, event.response_id)
        is_ours = isinstance(event, PromptStarted) and (
            event.adapter == provider and event.parent_call_id is None
        )
        if is_ours and number in last_ids:
            if history == "server" and last_ids[number] is not None:
                break
            # Without the id of its last response, every turn is repeated.
            history = "client"
    top = _in_order(turns.values())
    for each in top:
        is_kept = is_by_id and each.started is not None and each.started.adapter == provider
        each.read_steps(_ended_calls(session, each, is_by_id=is_kept))
    return EarlierTurns(top, compacted, frozenset(expired), is_deleted)


def _add(turn: EarlierTurn, seq: int, event: Event, expired: set[str]) -> None:
    """Add an event of a turn; newer ones were added before."""
    match event:
        case PromptStarted():
            turn.started = event
        case PromptAnswered():
            if turn.answered is None:
                turn.answered, turn.ended_at = event, seq
        case FilesStaged():
            turn.staged = turn.staged or event
        case ContainerExpired():
            expired.update(event.container_ids)
        case _:
            turn.events.append((seq, event))


def _in_order(turns: Iterable[EarlierTurn]) -> list[EarlierTurn]:
    """The turns of people; a prompt that a call evaluated belongs to the call."""
    top = [turn for turn in turns if turn.started and turn.started.parent_call_id is None]
    return sorted(top, key=lambda turn: turn.number)


def _ended_calls(session: Session, turn: EarlierTurn, *, is_by_id: bool) -> list[tuple[int, Event]]:
    """The calls that ended in a turn; with `is_by_id`, after the last reply that the provider has.

    A turn without an answer does not say where it ends, and clients may have made any number of
    calls since: only so many records are looked at.
    """
    replies = [(seq, each) for seq, each in turn.events if isinstance(each, ModelResponded)]
    if not replies:
        return []
    known = [seq for seq, each in replies if each.status in _USABLE and each.response_id]
    after = max(known) if is_by_id and known else min(seq for seq, _ in replies)
    last, kinds = max(seq for seq, _ in replies), (ToolInvoked.kind,)
    if turn.ended_at is not None:
        return list(placed_events(session, after=after, before=turn.ended_at, kinds=kinds))
    within = placed_events(session, after=after, before=last, kinds=kinds)
    later = placed_events(session, after=last, limit=_LATER_CALLS, kinds=kinds)
    return [*within, *later]


def follow(
    session: Session,
    conversation: Conversation,
    provider: str,
    classifier: ItemClassifier,
    turn: int,
    *,
    is_whole: bool = False,
) -> None:
    """Continue a conversation from the turns before `turn`. May touch the disk.

    With `is_whole` everything is said again, also to a provider that keeps the history.
    """
    history: History = "client" if is_whole else conversation.history
    earlier = read_earlier_turns(session, provider, history, turn)
    retold = _Retelling(session, provider, classifier, is_by_id=history == "server")
    retold.tell(earlier)
    conversation.last_response_id = retold.last_id
    conversation.unsent.extend(retold.items)
    conversation.omitted.extend(retold.omitted)
    conversation.expired.update(earlier.expired)


class _Retelling:
    """The items of earlier turns, for a conversation that goes on from them."""

    def __init__(
        self, session: Session, provider: str, classifier: ItemClassifier, *, is_by_id: bool
    ) -> None:
        self.items: list[Item] = []
        self.last_id: str | None = None
        self.omitted: list[OmittedItem] = []
        self._provider = provider
        self._classifier = classifier
        self._is_by_id = is_by_id
        self._session = session
        self._artifact: Callable[[str], str | None] = lambda artifact_id: session.store.artifact(
            session.session_id, artifact_id
        )

    def tell(self, earlier: EarlierTurns) -> None:
        """Say the turns again, in order."""
        if earlier.compacted is not None:
            self.items += self._compacted(earlier.compacted)
        for turn in earlier.turns:
            assert turn.started is not None
            if not turn.steps:
                self._omit(turn.number, "the prompt", _why_unanswered(turn))
            elif turn.started.adapter == self._provider:
                self._tell_turn(turn, turn.started)
            else:
                self._tell_foreign(turn, turn.started)
        if earlier.is_deleted_before and self.last_id is None:
            first = earlier.turns[0].number if earlier.turns else 0
            self._omit(first, "every turn before", "their payloads were deleted")

    def _tell_turn(self, turn: EarlierTurn, started: PromptStarted) -> None:
        self.items.append(self._message(turn, started))
        id_uses = Counter[str]()
        missing = LOST if turn.answered else UNENDED
        for step in turn.steps:
            reply = self._classifier.items(step.response.items)
            self.items.extend(reply)
            if self._is_by_id and step.response.response_id is not None:
                self.last_id = step.response.response_id
                self.items.clear()
            for call in tool_calls(reply):
                id_uses[call.call_id] += 1
                call_id = repeated_id(call.call_id, id_uses[call.call_id])
                event = step.invoked.get(call_id)
                if event is None and turn.answered is None:
                    event = self._late_end(turn.number, call_id)
                end = ToolCallEnd.recorded(event) if event else missing
                self.items.append(call.output(end))
            if step.rejected is not None:
                self.items.append(correction(step.rejected.problem))

    def _late_end(self, turn: int, call_id: str) -> ToolInvoked | None:
        """The end of a call that came long after the reply with it."""
        known = self._session.known_call(call_id)
        event = known.event if isinstance(known, Record) and known.payload is not None else None
        return event if isinstance(event, ToolInvoked) and event.turn == turn else None

    def _tell_foreign(self, turn: EarlierTurn, started: PromptStarted) -> None:
        """A turn of another provider, whose items this one does not read: prompt and answer."""
        self.items.append(self._message(turn, started))
        if turn.answered is None:
            self._omit(turn.number, "what the model did", f"{started.adapter} did not answer")
            return
        if turn.answered.text:
            self.items += self._said(turn.answered.text)
        if len(turn.steps) > 1 or any(step.invoked for step in turn.steps):
            reason = f"{started.adapter} made them, in items of its own"
            self._omit(turn.number, "calls and their results", reason)

    def _message(self, turn: EarlierTurn, started: PromptStarted) -> UserMessage:
        contents: list[PromptContent] = [TextContent(started.text)]
        for content in contents_again(started.attachments, self._artifact):
            if isinstance(content, KeptAttachment):
                name = content.name or content.artifact_id or "?"
                self._omit(turn.number, f"attachment {name!r}", "its content was deleted")
            elif self._is_foreign_file(content, started):
                self._omit(turn.number, "an attached file", f"it lies with {started.adapter}")
            else:
                contents.append(content)
        if turn.staged is not None and started.adapter == self._provider:
            contents.append(TextContent(note_of(turn.staged)))
        return UserMessage(tuple(contents))

    def _is_foreign_file(self, content: PromptContent, started: PromptStarted) -> bool:
        return isinstance(content, UploadedFile) and started.adapter != self._provider

    def _compacted(self, event: HistoryCompacted) -> Iterator[Item]:
        if event.method == "provider":
            yield from self._classifier.items(event.items)
        else:
            yield UserMessage((TextContent(f"{SUMMARY_TITLE}\n\n{event.text or ''}"),))

    def _said(self, text: str) -> list[Item]:
        return [*self._classifier.items(self._classifier.format.said(text))]

    def _omit(self, turn: int, what: str, reason: str) -> None:
        self.omitted.append(OmittedItem(turn=turn, what=what, reason=reason))


SUMMARY_TITLE: Final = "A summary of the conversation so far:"


def _why_unanswered(turn: EarlierTurn) -> str:
    status = turn.last_status
    return f"its reply was {status}" if status else "the model did not reply to it"


def note_of(staged: FilesStaged) -> str:
    """What the model is told of staged files: a mount's paths do not exist in the container."""
    lines = [f"These files are in the container of {staged.tool}, under other paths:"]
    lines += [f"- {file.name} is at {file.path}" for file in staged.files]
    lines += [f"- {name} is empty and was not copied" for name in staged.empty]
    return "\n".join(lines)
