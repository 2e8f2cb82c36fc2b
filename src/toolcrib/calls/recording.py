"""Stages six and ten: what the ledger keeps of a call."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from toolcrib.calls.payloads import build_live, build_started, encode_invoked, encode_started
from toolcrib.calls.redact import scrub
from toolcrib.calls.validate import digest
from toolcrib.session.events import CallStarted, CallUnrecorded, ToolInvoked
from toolcrib.store.store import (
    ApprovalUsed,
    Artifact,
    ArtifactKept,
    CallClosed,
    CallOpened,
    Effect,
    OpenCall,
    OpenCallState,
)

if TYPE_CHECKING:
    from toolcrib.approval.decision import Decided
    from toolcrib.calls.call import Call


def record_start(call: Call) -> Awaitable[None] | None:
    """Write "started" before the handler runs, with what another process needs to ask about it.

    Await what is returned, if anything: then the record is durable.
    """
    session = call.session
    call.attempt += 1
    call.started_at = session.clock()
    ledger = session.ledger
    # In memory only calls that were asked about lie beside the ledger, because nobody else could
    # take the others up.
    if call.approval_id is not None or ledger.is_durable or call.attempt > 1:
        return session.record(build_started(call), (CallOpened(open_call(call, "started")),))
    if session.is_heard:
        return session.record(build_started(call))
    ledger.append((CallStarted.kind, call.started_at, call.call_id, encode_started, call))
    return None


def settle_start(call: Call) -> None:
    """Have the start of the call encoded as it was: what comes now may change the call."""
    ledger = call.session.ledger
    if not ledger.is_durable:
        ledger.head()


def record_finish(call: Call) -> Awaitable[None] | None:
    """Write the end of the call. Await what is returned, if anything: then it is durable."""
    session = call.session
    _close(call)
    entry = (ToolInvoked.kind, call.finished_at, call.call_id, encode_invoked, call)
    durable = session.ledger.append(entry, _finish_effects(call))
    if durable is None and not session.is_heard:
        return None
    return session.announce_when(durable, lambda: build_live(call))


def record_finish_soon(call: Call) -> None:
    """Write the end of a call that is being torn down, without waiting."""
    session = call.session
    _close(call)
    entry = (ToolInvoked.kind, call.finished_at, call.call_id, encode_invoked, call)
    session.append_soon(entry, _finish_effects(call))
    if session.is_heard:
        session.announce(build_live(call))


def tell_unrecorded(call: Call, error: Exception) -> None:
    """Say that the end of a call could not be written down, to whoever listens here."""
    session = call.session
    if session.is_heard:
        session.announce(
            CallUnrecorded(
                session_id=session.session_id,
                at=call.finished_at,
                call_id=call.call_id,
                tool=call.prepared.ref if call.prepared else call.frozen_ref,
                reason=type(error).__name__,
            )
        )


def put_down(call: Call) -> None:
    """The handler has nothing more to say or do: the call is over, or goes on as another one."""
    call.is_over = True
    if call.emitter is not None:
        call.emitter.close()


def _close(call: Call) -> None:
    call.finished_at = call.session.clock()
    call.is_over = True
    if call.emitter is not None:
        call.emitter.close()
    if call.approval_id is not None:
        call.session.waiting.discard(call.call_id)


def _finish_effects(call: Call) -> tuple[Effect, ...]:
    """What becomes durable together with the end of the call."""
    is_kept_open = (
        call.approval_id is not None or call.session.ledger.is_durable or call.attempt > 1
    )
    if not is_kept_open and call.whole_text is None:
        return ()
    effects: list[Effect] = []
    if is_kept_open:
        effects.append(CallClosed(call.call_id))
    if call.approval_id is not None:
        effects.append(ApprovalUsed(call.approval_id))
    if call.whole_text is not None and call.artifact_id is not None:
        text = scrub(call, call.whole_text)
        effects.append(ArtifactKept(Artifact(call.artifact_id, call.call_id, text)))
    return tuple(effects)


def open_call(call: Call, state: OpenCallState, decided: Decided | None = None) -> OpenCall:
    """The call as it lies beside the ledger while it is open."""
    caller = call.caller
    if call.created_at is None:
        call.created_at = call.session.clock()
    return OpenCall(
        call_id=call.call_id,
        tool=call.tool.ref,
        arguments=call.arguments,
        digest=digest(call),
        state=state,
        created_at=call.created_at,
        has_secrets=call.tool.redactor is not None,
        approval_id=call.approval_id,
        parent_call_id=call.parent_call_id,
        depth=call.depth,
        turn=call.turn,
        attempt=call.attempt,
        was_edited=call.was_edited,
        decided=decided,
        principal=caller.principal if caller else None,
        transport=caller.transport if caller else None,
        is_by_model=caller.is_model if caller else False,
    )
