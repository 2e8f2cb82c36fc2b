"""What one `Runtime.advance` came to, and how far the prompt of a session is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, assert_never

from toolcrib.errors import Refused
from toolcrib.runtime.messages import PromptResult, ResumeSession
from toolcrib.runtime.ownership import owner_of
from toolcrib.runtime.principal import OWNER
from toolcrib.runtime.prompt_operations import NO_AGENT, PromptRunner, is_of_prompt, turn_of
from toolcrib.runtime.session_setup import OPEN_PROMPT
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import Collection

    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.store.store import FiledApproval, Store

AdvancedStatus = Literal["answered", "waiting", "idle", "elsewhere", "cancelled", "failed"]
"""`answered`, `cancelled` and `failed`: the turn has ended. `waiting`: for a decision, or for
`wake_at`. `idle`: there is no turn. `elsewhere`: another run has the session, here or in another
process; ask again later.
"""


@dataclass(frozen=True, slots=True)
class Advanced:
    """What became of the turn of a session in one `Runtime.advance`."""

    session_id: str
    status: AdvancedStatus
    wake_at: float | None = None
    """When a turn that waits is due although nobody has decided: its next deadline."""
    result: PromptResult | None = None
    """What came of the prompt, when there was one to advance."""
    has_more: bool = False
    """Whether another prompt of the session is queued: advance it again."""


def advanced(result: PromptResult, wake_at: float | None = None) -> Advanced:
    """What a result of a prompt means for whoever drives its turn."""
    match result.status:
        case "completed":
            return Advanced(result.session_id, "answered", result=result)
        case "waiting":
            return Advanced(result.session_id, "waiting", wake_at, result)
        case "cancelled" | "failed":
            return Advanced(result.session_id, result.status, result=result)
        case _:
            assert_never(result.status)


async def advance_open_prompt(
    sessions: LiveSessions, store: Store, config: RuntimeConfig, session_id: str
) -> Advanced:
    """Go on with the prompt of a session that has not ended, in a store that one machine has. A
    session that was not open is let go again.
    """
    live = sessions.find(session_id)
    was_open = live is not None
    if live is None:
        info = await sessions.seen(session_id, OWNER)
        if OPEN_PROMPT not in info.settings.get("host", {}):
            return Advanced(session_id, "idle")
        try:
            live = await sessions.resume(ResumeSession(session_id=session_id), owner_of(info))
        except Refused as refused:
            if refused.kind == "conflict":
                return Advanced(session_id, "elsewhere")
            raise
    try:
        return await _advance_live(live, store, config)
    finally:
        if not was_open:
            await sessions.let_go(live)


async def _advance_live(live: LiveSession, store: Store, config: RuntimeConfig) -> Advanced:
    session_id = live.session.session_id
    if live.slot.is_busy:
        return Advanced(session_id, "elsewhere")
    if live.session.host_setting(OPEN_PROMPT) is None:
        return Advanced(session_id, "idle")
    if config.adapter is None:
        raise Refused("unavailable", NO_AGENT)
    turn = await turn_of(live)
    undecided = await _undecided(live, turn)
    if undecided:
        result = PromptResult(
            session_id=session_id, turn=turn, status="waiting", pending=sorted(undecided)
        )
        return advanced(result, await next_deadline(store, undecided))
    caller = live.opened_by.caller(is_model=True)
    runner = PromptRunner(live, config.adapter, config.instructions, caller, config.budget)
    try:
        result = await live.slot.run(lambda: runner.resume(waits=False), "reject")
    except Refused as refused:
        if refused.kind == "busy":
            return Advanced(session_id, "elsewhere")
        raise
    if result is None:
        return Advanced(session_id, "cancelled")
    return advanced(result, await next_deadline(store, result.pending))


async def _undecided(live: LiveSession, turn: int) -> set[str]:
    """The requests that the prompt waits for, if nothing else is left to do before a decision."""
    session, now = live.session, live.session.clock()

    def read() -> set[str]:
        waiting: set[str] = set()
        for call in session.open_calls():
            if call.turn != turn or not call.caller.is_model:
                continue
            filed = session.store.approval(call.approval_id) if call.approval_id else None
            if not is_of_prompt(call, turn) or filed is None or not _is_open(filed, now):
                return set()
            waiting.add(filed.request.approval_id)
        return waiting

    return await ask_store(session.store, read)


def _is_open(filed: FiledApproval, now: float) -> bool:
    deadline = filed.request.deadline
    return filed.state == "pending" and (deadline is None or now < deadline)


async def next_deadline(store: Store, approval_ids: Collection[str]) -> float | None:
    """The first deadline of these requests; None when they have none."""

    def read() -> float | None:
        filed = [store.approval(approval_id) for approval_id in approval_ids]
        deadlines = [each.request.deadline for each in filed if each is not None]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    return await ask_store(store, read) if approval_ids else None
