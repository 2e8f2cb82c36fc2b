"""Stages six and ten: what the ledger keeps of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from toolcrib.calls.redact import scrub, shown_arguments
from toolcrib.calls.validate import digest
from toolcrib.session.events import CallStarted, ToolInvoked
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


async def record_start(call: Call) -> None:
    """Write "started" before the handler runs, with what another process needs to ask about it."""
    session = call.session
    call.attempt += 1
    call.started_at = session.clock()
    ledger = session.ledger
    if call.attempt == 1 and not ledger.is_durable and call.approval_id is None:
        ledger.append(build_started, call)
        if session.is_heard:
            session.announce(build_started(call))
        return
    # A later attempt changes the call, so this record is built now.
    await session.record(build_started(call), (CallOpened(open_call(call, "started")),))


def build_started(call: Call) -> CallStarted:
    """The event that says the handler is about to run."""
    assert call.started_at is not None
    return CallStarted(
        session_id=call.session.session_id,
        at=call.started_at,
        call_id=call.call_id,
        tool=call.tool.ref,
        arguments_digest=digest(call),
        idempotency_key=call.idempotency_key,
        attempt=max(call.attempt, 1),
    )


async def record_finish(call: Call) -> None:
    """Write the end of the call, and return when it is durable."""
    _close(call)
    session = call.session
    durable = session.ledger.append(build_invoked, call, _finish_effects(call))
    if durable is not None:
        await durable
    if session.is_heard:
        session.announce(build_live(call))


def record_finish_soon(call: Call) -> None:
    """Write the end of a call that is being torn down, without waiting."""
    _close(call)
    session = call.session
    session.ledger.note(build_invoked, call, _finish_effects(call))
    if session.is_heard:
        session.announce(build_live(call))


def _close(call: Call) -> None:
    call.finished_at = call.session.clock()
    if call.emitter is not None:
        call.emitter.close()
    if call.approval_id is not None:
        call.session.waiting.discard(call.call_id)


def _finish_effects(call: Call) -> tuple[Effect, ...]:
    """What becomes durable together with the end of the call."""
    is_kept_open = call.session.ledger.is_durable or call.approval_id is not None
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


def build_invoked(call: Call) -> ToolInvoked:
    """The record of a finished call, from parts that nobody can change any more.

    The typed value may be mutable and belongs to the application by now, so the record is made
    from the JSON that was rendered when the call ended.
    """
    return _invoked(call, scrub(call, _recorded_value(call)))


def build_live(call: Call) -> ToolInvoked:
    """The same event for subscribers in this process, who get the typed value."""
    has_secrets = call.prepared is not None and call.prepared.redactor is not None
    return build_invoked(call) if has_secrets else _invoked(call, call.value)


def _recorded_value(call: Call) -> Any:
    if call.value_json is not None:
        return from_json(call.value_json)
    return call.value if type(call.value) is str else None


def _invoked(call: Call, value: Any) -> ToolInvoked:
    began = call.finished_at if call.started_at is None else call.started_at
    caller = call.caller
    return ToolInvoked(
        session_id=call.session.session_id,
        at=call.finished_at,
        call_id=call.call_id,
        name=call.name,
        params=shown_arguments(call),
        message=scrub(call, call.text),
        success=call.failure is None,
        value=value,
        failure=call.failure,
        tool=call.prepared.ref if call.prepared else call.frozen_ref,
        arguments_digest=digest(call),
        decided_by=call.decided_by,
        was_edited=call.was_edited,
        duration_seconds=max(0.0, call.finished_at - began),
        waited_seconds=call.waited,
        parent_call_id=call.parent.call_id if call.parent else None,
        depth=call.depth,
        turn=call.turn,
        principal=caller.principal if caller else None,
        transport=caller.transport if caller else None,
        artifact_id=call.artifact_id,
    )


def open_call(call: Call, state: OpenCallState, decided: Decided | None = None) -> OpenCall:
    """The call as it lies beside the ledger while it is open."""
    caller = call.caller
    return OpenCall(
        call_id=call.call_id,
        tool=call.tool.ref,
        arguments=call.arguments,
        digest=digest(call),
        state=state,
        created_at=call.created_at,
        has_secrets=call.tool.redactor is not None,
        approval_id=call.approval_id,
        parent_call_id=call.parent.call_id if call.parent else None,
        depth=call.depth,
        turn=call.turn,
        attempt=call.attempt,
        was_edited=call.was_edited,
        decided=decided,
        principal=caller.principal if caller else None,
        transport=caller.transport if caller else None,
    )
