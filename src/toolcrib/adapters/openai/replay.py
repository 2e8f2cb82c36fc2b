"""A turn taken up from the ledger: no request and no call is made again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import text_of
from toolcrib.adapters.openai.content import first_message
from toolcrib.adapters.openai.conversation import Conversation, History
from toolcrib.adapters.openai.opening import prompt_digest
from toolcrib.adapters.openai.turn import output_item
from toolcrib.adapters.response import Usage
from toolcrib.errors import InvalidState
from toolcrib.session.events import (
    Event,
    ModelResponded,
    PromptAnswered,
    PromptStarted,
    ToolInvoked,
)
from toolcrib.session.record import events

if TYPE_CHECKING:
    from toolcrib.prompt.rendering import RenderedPrompt
    from toolcrib.session.session import Session


def replayed(
    prompt: RenderedPrompt[Any], session: Session, history: History
) -> tuple[Conversation, list[Item], dict[str, str]]:
    """The conversation as it stands, the calls of its last step, and the outputs they have.

    Raises `InvalidState` when the session is not in the middle of this prompt.
    """
    happened = _since_start(prompt, session)
    outputs = {event.call_id: event.message for event in happened if isinstance(event, ToolInvoked)}
    conversation = Conversation(history)
    conversation.say(first_message(prompt))
    calls: list[Item] = []
    for event in happened:
        if isinstance(event, ModelResponded):
            _answer(conversation, calls, outputs)
            conversation.hear(
                list(event.items), event.response_id, Usage(requests=1, **event.usage), event.model
            )
            calls = list(conversation.requested())
            conversation.calls += len(calls)
    return conversation, calls, outputs


def _answer(conversation: Conversation, calls: Sequence[Item], outputs: dict[str, str]) -> None:
    for item in calls:
        conversation.say(output_item(item, outputs.get(text_of(item, "call_id"), "")))


def _since_start(prompt: RenderedPrompt[Any], session: Session) -> list[Event]:
    happened: list[Event] = []
    started: PromptStarted | None = None
    for event in events(session.records()):
        if isinstance(event, PromptStarted):
            started, happened = event, []
        elif isinstance(event, PromptAnswered):
            started = None
        else:
            happened.append(event)
    if started is None or started.prompt_name != prompt.name:
        raise InvalidState(
            f"session {session.session_id} is not in the middle of prompt {prompt.name!r}; "
            "evaluate it instead"
        )
    if started.digest != prompt_digest(prompt):
        raise InvalidState(
            f"prompt {prompt.name!r} is not what it was when this turn began; a turn goes on only "
            "with the same text, tools and attachments"
        )
    return happened
