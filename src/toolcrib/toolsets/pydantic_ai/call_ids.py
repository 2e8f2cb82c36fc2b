"""Which call of the session a call of an agent is.

The ids come from models. Some count from one in every conversation, so an id alone does not say
whose call it is; and a call that waits must never be taken for another one.
"""

from __future__ import annotations

import uuid
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from toolcrib.calls.call import Caller
from toolcrib.calls.executor import MAX_ID_CHARS

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from toolcrib.session.session import Session
    from toolcrib.store.store import OpenCall

TRANSPORT = "pydantic-ai"


def caller_of(run: RunContext[Any]) -> Caller:
    """Who calls, for the audit: the conversation of an agent."""
    return Caller(f"conversation:{run.conversation_id}", TRANSPORT)


def plain_id(run: RunContext[Any]) -> str:
    """The id that the model gave the call, in a form that every store takes."""
    given = run.tool_call_id or f"call_{uuid.uuid4().hex}"
    return given if _is_usable(given) else f"call_{_digest(given)}"


def own_id(run: RunContext[Any]) -> str:
    """The same id, made this conversation's own: for when another call has the plain one."""
    qualified = f"{plain_id(run)}@{run.conversation_id}"
    return qualified if _is_usable(qualified) else f"call_{_digest(qualified)}"


async def waiting_calls(
    session: Session, run: RunContext[Any], name: str, given: bytes
) -> list[OpenCall]:
    """The open calls that this call of the agent may go on with, the likeliest first."""
    ids = [own_id(run), plain_id(run)]
    if session.waiting.isdisjoint(ids):
        return []
    found = [
        call
        for call in await session.ask_store(session.open_calls)
        if call.call_id in ids and call.tool.name == name and is_of(call, run, given)
    ]
    return sorted(found, key=lambda call: ids.index(call.call_id))


def is_of(call: OpenCall, run: RunContext[Any], given: bytes | None = None) -> bool:
    """Whether an open call was made in this conversation, or is the same call anyhow."""
    return call.principal == caller_of(run).principal or call.arguments == given


def free_id(session: Session, run: RunContext[Any]) -> str:
    """An id for a new call: the model's own unless another call has it now."""
    for call_id in (plain_id(run), own_id(run)):
        if call_id not in session.waiting and call_id not in session.claimed:
            return call_id
    return f"call_{uuid.uuid4().hex}"


def _is_usable(call_id: str) -> bool:
    return len(call_id) <= MAX_ID_CHARS and call_id.isprintable()


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
