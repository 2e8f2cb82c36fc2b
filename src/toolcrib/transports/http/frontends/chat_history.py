"""The last turns of a chat, read from the ledger of its session."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from toolcrib.ledger.prompt_events import PromptStarted
from toolcrib.runtime.approval_operations import may_approve
from toolcrib.runtime.event_reader import Envelope
from toolcrib.runtime.session_events import typed_event
from toolcrib.transports.http.frontends.chat_request import session_of
from toolcrib.transports.http.frontends.pictures import with_pictures
from toolcrib.transports.http.frontends.turn_parts import ApprovalShown, TurnPart
from toolcrib.transports.http.frontends.turn_reader import TurnReader

if TYPE_CHECKING:
    from toolcrib.ledger.events import Event
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime

MAX_TURNS: Final = 100
"""How many turns a page that is loaded again gets."""


@dataclass(slots=True)
class PastTurn:
    """A turn of the ledger: what the user wrote, and the parts that were shown of it."""

    turn: int
    text: str = ""
    parts: list[TurnPart] = field(default_factory=list[TurnPart])


async def past_turns(runtime: Runtime, chat_id: str, who: Principal) -> list[PastTurn]:
    """The last turns of a chat. Raises `Refused`."""
    session_id = await session_of(runtime, chat_id, who)
    starts = await runtime.service.last_prompts(session_id, who, MAX_TURNS)
    if not starts:
        return []
    first, wanted = starts[0].seq - 1, {start.turn for start in starts}
    past: list[PastTurn] = []
    reader = TurnReader()
    async for event in _recorded(runtime, session_id, first, who):
        if isinstance(event, PromptStarted) and event.turn in wanted:
            if past:
                past[-1].parts.extend(reader.end())
            past.append(PastTurn(event.turn, event.text))
            reader = TurnReader(event.turn)
        if past:
            async for part in with_pictures(runtime, who, reader.read(event)):
                past[-1].parts.append(part)
    if past:
        await _add_pending(runtime, session_id, who, reader, past[-1])
        past[-1].parts.extend(reader.end())
    return past


async def _recorded(
    runtime: Runtime, session_id: str, after: int, who: Principal
) -> AsyncGenerator[Event]:
    while True:
        params = {"session_id": session_id, "after": after}
        page = await runtime.ask("events.list", params, who)
        if not page.events:
            return
        after = page.last_seq
        for envelope in page.events:
            yield typed_event(Envelope(**envelope))


async def _add_pending(
    runtime: Runtime, session_id: str, who: Principal, reader: TurnReader, last: PastTurn
) -> None:
    """The requests that still wait belong to the last turn: a newer one would have ended them."""
    inbox = await runtime.ask("approvals.list", {"session_id": session_id}, who)
    for approval in inbox.approvals:
        if approval.caller.is_model:
            call = approval.call_id, approval.tool, approval.arguments
            last.parts.extend(reader.show_call(*call))
            may_decide = may_approve(approval, who, runtime.config)
            last.parts.append(ApprovalShown(approval, may_decide))
