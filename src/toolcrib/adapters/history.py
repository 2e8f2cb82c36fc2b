"""The conversation of a turn, and how it is rebuilt from the ledger.

A turn that is resumed repeats no request and no call: its steps come from the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from toolcrib.adapters.items import (
    Item,
    ReplyItem,
    TextContent,
    ToolCallEnd,
    ToolCallItem,
    UserMessage,
    tool_calls,
)
from toolcrib.adapters.options import Usage
from toolcrib.calls.recorded_call import repeated_id
from toolcrib.errors import InvalidState
from toolcrib.ledger.events import Event, ToolInvoked
from toolcrib.ledger.prompt_events import (
    AnswerRejected,
    FilesCited,
    FilesStaged,
    ModelCancelled,
    ModelQueued,
    ModelResponded,
    ModelRetried,
    OmittedItem,
    PromptAnswered,
    PromptStarted,
)
from toolcrib.prices.cost import Cost, CostPart

if TYPE_CHECKING:
    from toolcrib.adapters.tool_calls import ItemClassifier
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.session.session import Session


History = Literal["server", "client"]
"""Who keeps what was said: the provider (`previous_response_id`), or we (everything is sent)."""


@dataclass(frozen=True, slots=True)
class ReplyItems:
    """The content of one reply."""

    items: list[ReplyItem] = field(repr=False)
    usage: Usage
    response_id: str | None = None
    request_id: str | None = None
    model: str | None = None
    is_paused: bool = False
    """Whether the provider paused: the next request continues the same answer."""
    cost: Cost | None = None
    """Of the tokens; None when nobody knows the price."""


@dataclass(frozen=True, slots=True)
class ExpiredContainers:
    """Containers that the provider no longer has, and how it said so."""

    ids: tuple[str, ...]
    reason: str


@dataclass(slots=True)
class Conversation:
    """Grows by appending, never by copying: a step costs the same however long the history is."""

    history: History
    unsent: list[Item] = field(default_factory=list[Item], repr=False)
    """What the next request must bring; with a client-kept history, everything so far. It only
    grows, until another list takes its place.
    """
    items: list[ReplyItem] = field(default_factory=list[ReplyItem], repr=False)
    """Every item the provider has sent, over all steps."""
    last_response_id: str | None = None
    """The response that the provider continues, where it keeps the history."""
    steps: int = 0
    calls: int = 0
    """How many calls the model has asked this process to run."""
    usage: Usage = field(default_factory=Usage)
    cost: Cost = field(default_factory=Cost)
    """Of the requests, without what the provider bills for calls that it ran."""
    model: str | None = None
    request_ids: list[str] = field(default_factory=list[str])
    last_items: list[ReplyItem] = field(default_factory=list[ReplyItem], repr=False)
    """What the provider sent since the last item of this side."""
    is_paused: bool = False
    id_uses: Counter[str] = field(default_factory=Counter[str], repr=False)
    """How often the model has used each call id in this turn."""
    queued_id: str | None = None
    """A response that the provider is working on in the background: it is asked for, and nothing is
    sent, until it is there.
    """
    background_ids: list[str] = field(default_factory=list[str])
    """The responses of this turn that were made in the background and are there."""
    omitted: list[OmittedItem] = field(default_factory=list[OmittedItem], repr=False)
    """What of earlier turns could not be said again, until it is recorded."""
    reused: frozenset[str] = frozenset()
    """Containers of earlier turns that the tools of this one name."""
    expired: set[str] = field(default_factory=set[str])
    """Containers of earlier turns that are gone."""
    newly_expired: ExpiredContainers | None = None
    """Containers that were found to be gone, until that is recorded."""

    def id_of(self, call: ToolCallItem) -> str:
        """The id of a call of the last reply in the ledger: the model's, unless an earlier reply of
        the turn used it.
        """
        return repeated_id(call.call_id, self.id_uses[call.call_id])

    def next_id(self, call_id: str) -> str:
        """The id that a call will have in the ledger, while the reply with it still comes in."""
        return repeated_id(call_id, self.id_uses[call_id] + 1)

    def add(self, item: Item) -> None:
        """Add an item of this side: the prompt, or the output of a call."""
        self.unsent.append(item)

    def add_reply(self, reply: ReplyItems) -> None:
        """Add a reply of the provider."""
        if self.queued_id is not None:
            self.background_ids.append(self.queued_id)
            self.queued_id = None
        self.steps += 1
        self.count(reply)
        self.last_items = [*self.last_items, *reply.items] if self.is_paused else reply.items
        self.is_paused = reply.is_paused
        self.items.extend(reply.items)
        self.id_uses.update(call.call_id for call in tool_calls(reply.items))
        if self.history == "server" and reply.response_id is not None:
            self.last_response_id = reply.response_id
            self.unsent = []
        else:
            self.unsent.extend(reply.items)

    def count(self, reply: ReplyItems) -> None:
        """Count the usage of a reply, also of one that is of no use."""
        self.usage += reply.usage
        unknown = CostPart("tokens", reply.model or "", reply.usage.total_tokens, None)
        self.cost += reply.cost or Cost((unknown,))
        self.model = reply.model or self.model
        if reply.request_id:
            self.request_ids.append(reply.request_id)


@dataclass(slots=True)
class TurnStep:
    """A recorded reply, and the calls that ended before the next one, by id."""

    response: ModelResponded
    retries: int = 0
    """How many attempts at its request had failed."""
    invoked: dict[str, ToolInvoked] = field(default_factory=dict[str, ToolInvoked])
    cited: dict[str, FilesCited] = field(default_factory=dict[str, FilesCited])
    """The files of earlier calls that the reply cites, by the id of the call."""
    rejected: AnswerRejected | None = None
    """Why the reply is no answer, where the model was asked again."""


@dataclass(slots=True)
class TurnState:
    """Where a turn stands. `is_open` means that nothing of this side follows the last reply yet:
    either its calls are to be answered, or it is the prompt's answer.
    """

    conversation: Conversation
    is_open: bool = False
    ends: dict[str, ToolCallEnd] = field(default_factory=dict[str, ToolCallEnd])
    """How the calls of the last step ended that are over, by id."""


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
            "with the same instructions, text, attachments and tools, hosted ones with the same "
            "options"
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
    places: dict[int, int] = {}
    answered: set[int] = set()
    kinds = (PromptStarted.kind, PromptAnswered.kind)
    for record in session.records(kinds=kinds, newest_first=True):
        if record.payload is None:
            break
        match event := record.event:
            case PromptAnswered():
                answered.add(event.turn)
            case PromptStarted(prompt_name=name, parent_call_id=parent):
                places[event.turn] = record.seq
                is_meant = (name, parent, event.digest) == (prompt_name, parent_call_id, digest)
                if is_meant and event.turn not in answered:
                    return event, _events_since(session, record.seq)
            case _:
                pass
        prompts.append(event)
    started = open_prompt(reversed(prompts), prompt_name, digest, parent_call_id)
    return started, _events_since(session, places[started.turn])


_TURN_KINDS: Final = (
    AnswerRejected.kind,
    FilesCited.kind,
    FilesStaged.kind,
    ModelCancelled.kind,
    ModelQueued.kind,
    ModelResponded.kind,
    ModelRetried.kind,
    PromptStarted.kind,
    ToolInvoked.kind,
)
"""What a turn is rebuilt from."""


def _events_since(session: Session, seq: int) -> list[Event]:
    happened = session.events(seq - 1, kinds=_TURN_KINDS)
    return [whole_event(session, event) for event in happened]


def whole_event(session: Session, event: Event) -> Event:
    """A recorded reply with the texts that are kept beside it. May touch the disk."""
    if not isinstance(event, ModelResponded) or not event.kept:
        return event
    return replace(event, items=session.artifacts.whole(event.items, event.kept))


def steps_of(happened: Iterable[Event], started: PromptStarted) -> list[TurnStep]:
    """What followed from a prompt, without what followed from prompts within it."""
    steps: list[TurnStep] = []
    retries = 0
    for event in happened:
        match event:
            case ModelRetried() if event.turn == started.turn:
                retries += 1
            case ModelResponded() if event.turn == started.turn:
                steps.append(TurnStep(event, retries))
                retries = 0
            case ToolInvoked() if event.turn == started.turn and steps:
                steps[-1].invoked[event.call_id] = event
            case AnswerRejected() if event.turn == started.turn and steps:
                steps[-1].rejected = event
            case FilesCited() if event.turn == started.turn and steps:
                steps[-1].cited[event.call_id] = event
            case _:
                pass
    return steps


def queued_response(happened: Iterable[Event], turn: int) -> str | None:
    """The id of the response that the provider still works on for a turn, if there is one."""
    response_id: str | None = None
    for event in happened:
        match event:
            case ModelQueued() if event.turn == turn:
                response_id = event.response_id
            case ModelResponded() | ModelCancelled() if event.turn == turn:
                response_id = None
            case _:
                pass
    return response_id


@dataclass(frozen=True, slots=True)
class NestedSpending:
    """What requests and provider-run calls took; the cost in billionths of a dollar."""

    tokens: int = 0
    nanos: int = 0


def spent_within(happened: Iterable[Event], turn: int) -> NestedSpending:
    """What all prompts took that calls of a turn evaluated, with those within them."""
    within = {turn}
    spent = NestedSpending()
    for event in happened:
        match event:
            case PromptStarted() if event.parent_turn in within:
                within.add(event.turn)
            case ModelResponded() if event.turn in within and event.turn != turn:
                tokens = Usage(**event.usage).total_tokens
                spent = NestedSpending(spent.tokens + tokens, spent.nanos + _nanos(event.cost))
            case ToolInvoked(cost=cost) if event.turn in within and event.turn != turn:
                spent = NestedSpending(spent.tokens, spent.nanos + _nanos(cost))
            case _:
                pass
    return spent


def _nanos(cost: Cost | None) -> int:
    return 0 if cost is None else cost.nanos or 0


async def take_up(
    steps: Iterable[TurnStep],
    conversation: Conversation,
    tools: TurnTools,
    turn: int,
    queued_id: str | None = None,
) -> TurnState:
    """Bring a conversation to where it stood. Provider-run calls are accounted for, and recorded
    where a process died before it could. `queued_id` is of a response that is still to come.
    """
    state = TurnState(conversation)
    for step in steps:
        reply = _recorded_reply(step.response, tools.classifier)
        conversation.usage += Usage(requests=step.retries)
        _answer_calls(state)
        if step.response.status in ("completed", "paused"):
            conversation.add_reply(reply)
            state.is_open = step.response.status == "completed"
            state.ends = {key: ToolCallEnd.recorded(event) for key, event in step.invoked.items()}
            if step.rejected is not None:
                conversation.add(correction(step.rejected.problem))
                state.is_open = False
        else:
            # Nothing can follow from such a reply: the request is made again.
            conversation.count(reply)
        tools.hosted.costs.model = reply.model or ""
        status = step.response.status
        await tools.hosted.record(reply.items, turn, status, step.invoked, step.cited)
    if queued_id is not None:
        _answer_calls(state)
        conversation.queued_id = queued_id
    if state.is_open:
        calls = tool_calls(conversation.last_items)
        conversation.calls += sum(conversation.id_of(call) in state.ends for call in calls)
    return state


def _answer_calls(state: TurnState) -> None:
    """Add the outputs that were sent after the last reply."""
    if not state.is_open:
        return
    conversation = state.conversation
    calls = tool_calls(conversation.last_items)
    conversation.calls += len(calls)
    for call in calls:
        conversation.add(call.output(state.ends.get(conversation.id_of(call), LOST)))
    state.is_open = False


def _recorded_reply(event: ModelResponded, classifier: ItemClassifier) -> ReplyItems:
    return ReplyItems(
        items=classifier.items(event.items),
        usage=Usage(requests=1, **event.usage),
        response_id=event.response_id,
        request_id=event.request_id,
        model=event.model,
        is_paused=event.status == "paused",
        cost=event.cost,
    )


def correction(problem: str) -> UserMessage:
    """What the model is told of an answer that does not fit the output type."""
    text = (
        f"Your answer cannot be used: {problem}\n\nAnswer again, with the whole answer and nothing "
        "else."
    )
    return UserMessage((TextContent(text),))


LOST = ToolCallEnd(
    "This call was interrupted before it started, and its secret arguments were not kept; "
    "call again.",
    success=False,
    failure="unavailable",
)
"""The end of a call that never started, when the ledger does not have what it would need."""
