"""The items of one turn: what is sent, and what came back.

A turn taken up from the ledger: no request and no call is made again.

What was said in the earlier turns of a session, for a prompt that follows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.response import Usage
from toolcrib.adapters.tool_calls import ToolCallEnd
from toolcrib.errors import InvalidState
from toolcrib.ledger.events import Event, ModelResponded, PromptAnswered, PromptStarted, ToolInvoked
from toolcrib.ledger.record import events

if TYPE_CHECKING:
    from toolcrib.adapters.item_classifier import ItemClassifier
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.session.session import Session


History = Literal["server", "client"]
"""Who keeps what was said: the provider (`previous_response_id`), or we (everything is sent)."""


@dataclass(frozen=True, slots=True)
class ReplyItems:
    """One answer of the provider."""

    items: list[RawItem] = field(repr=False)
    usage: Usage
    response_id: str | None = None
    request_id: str | None = None
    model: str | None = None
    is_paused: bool = False
    """Whether the provider paused: asked again, it goes on with the same answer."""


@dataclass(slots=True)
class Conversation:
    """Grows by appending, never by copying: a step costs the same however long the history is."""

    history: History
    unsent: list[RawItem] = field(default_factory=list[RawItem], repr=False)
    """What the next request must bring; with a client-kept history, everything so far. It only
    grows, until another list takes its place.
    """
    items: list[RawItem] = field(default_factory=list[RawItem], repr=False)
    """Every item the provider has sent, over all steps."""
    previous_response_id: str | None = None
    steps: int = 0
    calls: int = 0
    """How many calls of ours the model has asked for."""
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    request_ids: list[str] = field(default_factory=list[str])
    last_items: list[RawItem] = field(default_factory=list[RawItem], repr=False)
    """What the provider sent since we last said something."""
    is_paused: bool = False

    def say(self, item: RawItem) -> None:
        """Add an item of ours: the prompt, or the output of a call."""
        self.unsent.append(item)

    def hear(self, heard: ReplyItems) -> None:
        """Add what the provider answered, verbatim."""
        self.steps += 1
        self.spend(heard)
        self.last_items = [*self.last_items, *heard.items] if self.is_paused else heard.items
        self.is_paused = heard.is_paused
        self.items.extend(heard.items)
        if self.history == "server" and heard.response_id is not None:
            self.previous_response_id = heard.response_id
            self.unsent = []
        else:
            self.unsent.extend(heard.items)

    def spend(self, heard: ReplyItems) -> None:
        """Count what an answer cost, also one that is of no use."""
        self.usage += heard.usage
        self.model = heard.model or self.model
        if heard.request_id:
            self.request_ids.append(heard.request_id)


@dataclass(slots=True)
class TurnStep:
    """An answer of the provider, and the calls that ended before the next one, by id."""

    response: ModelResponded
    invoked: dict[str, ToolInvoked] = field(default_factory=dict[str, ToolInvoked])


@dataclass(slots=True)
class TurnState:
    """Where a turn stands. `is_open` means that nothing of ours follows the last answer yet:
    either its calls are to be answered, or it is the prompt's answer.
    """

    conversation: Conversation
    is_open: bool = False
    ended: dict[str, ToolCallEnd] = field(default_factory=dict[str, ToolCallEnd])
    """The calls of the last step that are over."""


def open_prompt(
    happened: Iterable[Event], prompt_name: str, digest: str, parent_call_id: str | None = None
) -> PromptStarted:
    """The last start of this prompt that has no answer, of those in the call `parent_call_id` (or
    in none) if there is one. Raises `InvalidState` without any, and when the prompt is not what it
    was.
    """
    unanswered: dict[int, PromptStarted] = {}
    for event in happened:
        if isinstance(event, PromptStarted) and event.prompt_name == prompt_name:
            unanswered[event.turn] = event
        elif isinstance(event, PromptAnswered):
            unanswered.pop(event.turn, None)
    if not unanswered:
        raise InvalidState(
            f"the session is not in the middle of prompt {prompt_name!r}; evaluate it instead"
        )
    same = [started for started in unanswered.values() if started.digest == digest]
    if not same:
        raise InvalidState(
            f"prompt {prompt_name!r} is not what it was when this turn began; a turn goes on only "
            "with the same text, tools and attachments"
        )
    # A prompt may be evaluated within itself; who is not within it means the outer one.
    here = [started for started in same if started.parent_call_id == parent_call_id]
    return (here or same)[-1]


def read_open_prompt(
    session: Session, prompt_name: str, digest: str, parent_call_id: str | None = None
) -> tuple[PromptStarted, list[Event]]:
    """The prompt that `open_prompt` finds in the session's ledger, and the events since it began.

    Reads back from the end of the ledger, as far as that prompt. May touch the disk.
    """
    prompts: list[Event] = []
    answered: set[int] = set()
    kinds = (PromptStarted.kind, PromptAnswered.kind)
    for record in session.records(kinds=kinds, newest_first=True):
        if record.payload is None:
            continue
        match event := record.event:
            case PromptAnswered():
                answered.add(event.turn)
            case PromptStarted(prompt_name=name, parent_call_id=parent) if (
                name,
                parent,
                event.digest,
            ) == (prompt_name, parent_call_id, digest) and event.turn not in answered:
                return event, list(events(session.records(record.seq - 1)))
            case _:
                pass
        prompts.append(event)
    started = open_prompt(reversed(prompts), prompt_name, digest, parent_call_id)
    return started, list(events(session.records()))


def read_earlier_turns(session: Session, provider: str, history: History, turn: int) -> list[Event]:
    """The events of turns before `turn` that `follow` needs. May touch the disk.

    With a history that the provider keeps, that is the last turn it answered; else a request
    repeats every turn.
    """
    newest: list[Event] = []
    answered: set[int] = set()
    last_ids: dict[int, str | None] = {}
    for event in events(session.records(kinds=_CONVERSATION, newest_first=True)):
        if getattr(event, "turn", 0) >= turn:
            continue
        newest.append(event)
        match event:
            case PromptAnswered():
                answered.add(event.turn)
            case ModelResponded():
                last_ids.setdefault(event.turn, event.response_id)
            case PromptStarted(parent_call_id=None, adapter=adapter) if (
                adapter == provider and event.turn in answered
            ):
                if history == "server" and last_ids.get(event.turn) is not None:
                    break
                # Without the id of its last response, every turn is repeated.
                history = "client"
            case _:
                pass
    return newest[::-1]


_CONVERSATION = (
    PromptStarted.kind,
    PromptAnswered.kind,
    ModelResponded.kind,
    ToolInvoked.kind,
)


def steps_of(happened: Iterable[Event], started: PromptStarted) -> list[TurnStep]:
    """What followed from a prompt, without what followed from prompts within it."""
    steps: list[TurnStep] = []
    for event in happened:
        match event:
            case ModelResponded() if event.turn == started.turn:
                steps.append(TurnStep(event))
            case ToolInvoked() if event.turn == started.turn and steps:
                steps[-1].invoked[event.call_id] = event
            case _:
                pass
    return steps


def spent_within(happened: Iterable[Event], turn: int) -> int:
    """The tokens of all prompts that calls of a turn evaluated, and of those within them."""
    within = {turn}
    tokens = 0
    for event in happened:
        match event:
            case PromptStarted() if event.parent_turn in within:
                within.add(event.turn)
            case ModelResponded() if event.turn in within and event.turn != turn:
                tokens += Usage(**event.usage).total_tokens
            case _:
                pass
    return tokens


async def take_up(
    steps: Iterable[TurnStep], conversation: Conversation, opening: TurnTools, turn: int
) -> TurnState:
    """Bring a conversation to where it stood. Provider-run calls are accounted for, and recorded
    where a process died before it could.
    """
    taken = TurnState(conversation)
    for step in steps:
        heard = _heard(step.response)
        _close(taken, opening)
        if step.response.status in ("completed", "paused"):
            conversation.hear(heard)
            taken.is_open = step.response.status == "completed"
            taken.ended = {key: ToolCallEnd.recorded(event) for key, event in step.invoked.items()}
        else:
            # Nothing can follow from such an answer: it is asked for again.
            conversation.spend(heard)
        await opening.hosted.record(heard.items, turn, step.response.status, step.invoked)
    if taken.is_open:
        asked = opening.sorter.asked(conversation.last_items)
        conversation.calls += sum(each.call_id in taken.ended for each in asked)
    return taken


def _close(taken: TurnState, opening: TurnTools) -> None:
    """Say what was said after the last answer."""
    if not taken.is_open:
        return
    conversation = taken.conversation
    asked = opening.sorter.asked(conversation.last_items)
    conversation.calls += len(asked)
    for each in asked:
        conversation.say(each.answer(taken.ended.get(each.call_id, LOST)))
    taken.is_open = False


def _heard(event: ModelResponded) -> ReplyItems:
    return ReplyItems(
        items=list(event.items),
        usage=Usage(requests=1, **event.usage),
        response_id=event.response_id,
        request_id=event.request_id,
        model=event.model,
        is_paused=event.status == "paused",
    )


LOST = ToolCallEnd(
    "This call was interrupted before it started, and its secret arguments were not kept; "
    "call again.",
    success=False,
    failure="unavailable",
)
"""How a call ends that never started, when the ledger does not have what it would need."""


def follow(
    conversation: Conversation, happened: Sequence[Event], provider: str, sorter: ItemClassifier
) -> None:
    """Let a conversation go on from the turns that were answered. A provider that keeps what was
    said is told where to go on; else all of it is said again, as the ledger has it.
    """
    turns = _answered(happened, provider)
    if not turns:
        return
    if conversation.history == "server":
        responses = [step.response.response_id for step in steps_of(happened, turns[-1])]
        if responses and responses[-1] is not None:
            conversation.previous_response_id = responses[-1]
            return
    for started in turns:
        for item in _said(happened, started, sorter):
            conversation.say(item)


def _answered(happened: Sequence[Event], provider: str) -> list[PromptStarted]:
    """The prompts of people that this provider answered, in order. What calls asked on the way
    belongs to the calls.
    """
    answered = {event.turn for event in happened if isinstance(event, PromptAnswered)}
    return [
        event
        for event in happened
        if isinstance(event, PromptStarted)
        and event.turn in answered
        and event.parent_call_id is None
        and event.adapter == provider
    ]


def _said(
    happened: Sequence[Event], started: PromptStarted, sorter: ItemClassifier
) -> list[RawItem]:
    content = [{"type": "input_text", "text": started.text}]
    said: list[RawItem] = [{"type": "message", "role": "user", "content": content}]
    for step in steps_of(happened, started):
        if step.response.status not in ("completed", "paused"):
            continue
        said.extend(step.response.items)
        for asked in sorter.asked(step.response.items):
            event = step.invoked.get(asked.call_id)
            said.append(asked.answer(ToolCallEnd.recorded(event) if event else LOST))
    return said
