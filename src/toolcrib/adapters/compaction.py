"""Conversations made shorter: by the provider where it can, else by a summary of the model.

Either way the session's ledger keeps the turns, and a `HistoryCompacted` that prompts start from
which follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.earlier_turns import follow
from toolcrib.adapters.history import Conversation
from toolcrib.adapters.options import Usage
from toolcrib.errors import UsageError
from toolcrib.ledger.prompt_events import (
    SUMMARY_PROMPT,
    HistoryCompacted,
    HistoryOmitted,
    ModelResponded,
    PromptStarted,
)
from toolcrib.prices.cost import Cost
from toolcrib.prices.table import request_part
from toolcrib.prompt.prompt import Prompt
from toolcrib.prompt.section import MarkdownSection
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.adapters.answer import PromptResponse
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.history import History
    from toolcrib.adapters.tool_calls import ItemClassifier
    from toolcrib.session.session import Session

_SUMMARY: Final = (
    "Summarise the conversation so far, so that it can go on from the summary alone. Keep what the "
    "user wants, every fact, name, number, path and id that may still be needed, what was decided, "
    "what tools and code did and which files there are, and what is left to do. Leave out nothing "
    "that the user asked to remember. Write only the summary."
)


@dataclass(frozen=True, slots=True)
class CompactedItems:
    """What a provider made of a conversation: items that are sent in its place."""

    items: list[RawItem]
    usage: Usage
    model: str
    request_id: str | None = None


def checked_length(tokens: int | None) -> int | None:
    """The tokens above which a conversation is shortened. Raises `UsageError` below 1."""
    if tokens is not None and tokens < 1:
        raise UsageError(f"compact_above must be more than 0, or None, not {tokens!r}")
    return tokens


def has_turns(session: Session) -> bool:
    """Whether there is a conversation. May touch the disk."""
    starts = session.events(kinds=(PromptStarted.kind,), newest_first=True)
    return any(isinstance(start, PromptStarted) and not start.parent_call_id for start in starts)


def last_tokens(session: Session) -> int:
    """The tokens of the last request of a conversation, with its reply; 0 when the conversation was
    shortened since, or has none. May touch the disk.
    """
    kinds = (ModelResponded.kind, HistoryCompacted.kind)
    for event in session.events(kinds=kinds, newest_first=True):
        if isinstance(event, ModelResponded):
            return Usage(**event.usage).total_tokens
        return 0
    return 0


def summary_prompt(instructions: str | None) -> Prompt[str]:
    """The prompt that asks for a summary."""
    template = f"{_SUMMARY}\n\n{instructions}" if instructions else _SUMMARY
    # The caller's own words may have a `$`.
    section = MarkdownSection[Any](
        title="Summary", key="summary", template=template.replace("$", "$$")
    )
    ns, _, key = SUMMARY_PROMPT.partition(":")
    return Prompt[str](ns=ns, key=key, sections=[section])


async def conversation_of(
    session: Session, history: History, provider: str, classifier: ItemClassifier
) -> Conversation:
    """The conversation of a session so far. What cannot be said again of it is recorded."""
    conversation = Conversation(history)
    turn = session.last_turn + 1
    await ask_store(session.store, follow, session, conversation, provider, classifier, turn)
    if conversation.omitted:
        await session.record(
            HistoryOmitted(
                session_id=session.session_id,
                at=session.clock(),
                turn=session.last_turn,
                items=tuple(conversation.omitted),
            )
        )
        conversation.omitted.clear()
    return conversation


async def record_items(
    session: Session, adapter: str, compacted: CompactedItems
) -> HistoryCompacted:
    """Write down what the provider made of the conversation."""
    event = HistoryCompacted(
        session_id=session.session_id,
        at=session.clock(),
        turn=session.last_turn,
        adapter=adapter,
        model=compacted.model,
        method="provider",
        items=list(compacted.items),
        request_id=compacted.request_id,
        usage=compacted.usage.tokens,
        cost=_cost_of(session, adapter, compacted),
    )
    await session.record(event)
    return event


def _cost_of(session: Session, provider: str, compacted: CompactedItems) -> Cost | None:
    prices, tokens = session.store.prices, compacted.usage.tokens
    part = request_part(prices, provider, compacted.model, tokens, session.clock())
    return None if part is None else Cost((part,))


async def record_summary(
    session: Session, adapter: str, response: PromptResponse[str]
) -> HistoryCompacted:
    """Write down the summary that a model wrote."""
    if not response.text.strip():
        raise UsageError("the model wrote no summary; nothing was shortened")
    ids = response.request_ids
    event = HistoryCompacted(
        session_id=session.session_id,
        at=session.clock(),
        turn=session.last_turn,
        adapter=adapter,
        model=response.model or "",
        method="summary",
        items=[],
        text=response.text,
        request_id=ids[-1] if ids else None,
        usage=response.usage.tokens,
    )
    await session.record(event)
    return event
