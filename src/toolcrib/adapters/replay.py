"""A turn taken up from the ledger: no request and no call is made again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolcrib.adapters.asked import Ended
from toolcrib.adapters.conversation import Conversation, Heard
from toolcrib.adapters.response import Usage
from toolcrib.errors import InvalidState
from toolcrib.session.events import (
    Event,
    ModelResponded,
    PromptAnswered,
    PromptStarted,
    ToolInvoked,
)

if TYPE_CHECKING:
    from toolcrib.adapters.opening import Opening


@dataclass(slots=True)
class Step:
    """An answer of the provider, and the calls that ended before the next one, by id."""

    response: ModelResponded
    invoked: dict[str, ToolInvoked] = field(default_factory=dict[str, ToolInvoked])


@dataclass(slots=True)
class Taken:
    """Where a turn stands. `is_open` means that nothing of ours follows the last answer yet:
    either its calls are to be answered, or it is the prompt's answer.
    """

    conversation: Conversation
    is_open: bool = False
    ended: dict[str, Ended] = field(default_factory=dict[str, Ended])
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


def steps_of(happened: Iterable[Event], started: PromptStarted) -> list[Step]:
    """What followed from a prompt, without what followed from prompts within it."""
    steps: list[Step] = []
    for event in happened:
        match event:
            case ModelResponded() if event.turn == started.turn:
                steps.append(Step(event))
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
    steps: Iterable[Step], conversation: Conversation, opening: Opening, turn: int
) -> Taken:
    """Bring a conversation to where it stood. Provider-run calls are accounted for, and recorded
    where a process died before it could.
    """
    taken = Taken(conversation)
    for step in steps:
        heard = _heard(step.response)
        _close(taken, opening)
        if step.response.status in ("completed", "paused"):
            conversation.hear(heard)
            taken.is_open = step.response.status == "completed"
            taken.ended = {key: Ended.recorded(event) for key, event in step.invoked.items()}
        else:
            # Nothing can follow from such an answer: it is asked for again.
            conversation.spend(heard)
        await opening.hosted.record(heard.items, turn, step.response.status, step.invoked)
    if taken.is_open:
        asked = opening.sorter.asked(conversation.last_items)
        conversation.calls += sum(each.call_id in taken.ended for each in asked)
    return taken


def _close(taken: Taken, opening: Opening) -> None:
    """Say what was said after the last answer."""
    if not taken.is_open:
        return
    conversation = taken.conversation
    asked = opening.sorter.asked(conversation.last_items)
    conversation.calls += len(asked)
    for each in asked:
        conversation.say(each.answer(taken.ended.get(each.call_id, LOST)))
    taken.is_open = False


def _heard(event: ModelResponded) -> Heard:
    return Heard(
        items=list(event.items),
        usage=Usage(requests=1, **event.usage),
        response_id=event.response_id,
        request_id=event.request_id,
        model=event.model,
        is_paused=event.status == "paused",
    )


LOST = Ended(
    "This call was interrupted before it started, and its secret arguments were not kept; "
    "call again.",
    success=False,
    failure="unavailable",
)
"""How a call ends that never started, when the ledger does not have what it would need."""
