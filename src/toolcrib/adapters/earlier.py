"""What was said in the earlier turns of a session, for a prompt that follows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib.adapters.asked import Ended
from toolcrib.adapters.replay import LOST, steps_of
from toolcrib.session.events import Event, PromptAnswered, PromptStarted

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Item
    from toolcrib.adapters.conversation import Conversation
    from toolcrib.adapters.sorting import Sorter


def follow(
    conversation: Conversation, happened: Sequence[Event], provider: str, sorter: Sorter
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


def _said(happened: Sequence[Event], started: PromptStarted, sorter: Sorter) -> list[Item]:
    content = [{"type": "input_text", "text": started.text}]
    said: list[Item] = [{"type": "message", "role": "user", "content": content}]
    for step in steps_of(happened, started):
        if step.response.status not in ("completed", "paused"):
            continue
        said.extend(step.response.items)
        for asked in sorter.asked(step.response.items):
            event = step.invoked.get(asked.call_id)
            said.append(asked.answer(Ended.recorded(event) if event else LOST))
    return said
