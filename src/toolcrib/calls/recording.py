"""Stages six and ten: what the ledger keeps of a call."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from toolcrib.calls.redact import scrub, shown_arguments
from toolcrib.calls.validate import digest
from toolcrib.session.encoding import encode_facts
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


def record_start(call: Call) -> Awaitable[None] | None:
    """Write "started" before the handler runs, with what another process needs to ask about it.

    Await what is returned, if anything: then the record is durable.
    """
    session = call.session
    call.attempt += 1
    call.started_at = session.clock()
    ledger = session.ledger
    if call.attempt > 1 or call.approval_id is not None or ledger.is_durable or session.is_heard:
        # A later attempt changes the call, so this event is built now.
        opened = CallOpened(open_call(call, "started"))
        return session.record(_build_started(call), (opened,))
    ledger.append((CallStarted.kind, call.started_at, call.call_id, _encode_started, call))
    return None


def record_finish(call: Call) -> Awaitable[None] | None:
    """Write the end of the call. Await what is returned, if anything: then it is durable."""
    session = call.session
    _close(call)
    entry = (ToolInvoked.kind, call.finished_at, call.call_id, _encode_invoked, call)
    durable = session.ledger.append(entry, _finish_effects(call))
    if durable is None and not session.is_heard:
        return None
    return _announced(call, durable)


async def _announced(call: Call, durable: Awaitable[None] | None) -> None:
    if durable is not None:
        await durable
    if call.session.is_heard:
        call.session.announce(_build_live(call))


def record_finish_soon(call: Call) -> None:
    """Write the end of a call that is being torn down, without waiting."""
    session = call.session
    _close(call)
    entry = (ToolInvoked.kind, call.finished_at, call.call_id, _encode_invoked, call)
    session.ledger.note(entry, _finish_effects(call))
    if session.is_heard:
        session.announce(_build_live(call))


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


def _build_started(call: Call) -> CallStarted:
    assert call.started_at is not None
    return CallStarted(
        session_id=call.session.session_id,
        at=call.started_at,
        call_id=call.call_id,
        **_started_facts(call, call.tool.ref),
    )


def _encode_started(call: Call) -> bytes:
    return encode_facts(_started_facts(call, call.tool.ref_facts))


def _started_facts(call: Call, tool: object) -> dict[str, Any]:
    return {"tool": tool, "arguments_digest": digest(call), "attempt": call.attempt}


def _encode_invoked(call: Call) -> bytes:
    """The payload of a finished call, from parts that nobody can change any more.

    The typed value may be mutable and belongs to the application by now, so the record is made
    from the JSON that was rendered when the call ended.
    """
    value = scrub(call, _recorded_value(call))
    facts = _invoked_facts(
        call, value, call.prepared.ref_facts if call.prepared else call.frozen_ref
    )
    if call.is_plain_text and value is not None:
        # What the model saw is the value itself; a reader renders it again.
        del facts["message"]
    return encode_facts(facts)


def _build_live(call: Call) -> ToolInvoked:
    """The same event for subscribers in this process, who get the typed value."""
    has_secrets = call.prepared is not None and call.prepared.redactor is not None
    value = scrub(call, _recorded_value(call)) if has_secrets else call.value
    return ToolInvoked(
        session_id=call.session.session_id,
        at=call.finished_at,
        call_id=call.call_id,
        **_invoked_facts(call, value, call.prepared.ref if call.prepared else call.frozen_ref),
    )


def _recorded_value(call: Call) -> Any:
    if call.value_json is not None:
        return from_json(call.value_json)
    return call.text_value


def _invoked_facts(call: Call, value: Any, tool: object) -> dict[str, Any]:
    """What is to be said of a finished call; facts at their default are left out."""
    facts: dict[str, Any] = {
        "name": call.name,
        "params": shown_arguments(call),
        "message": scrub(call, call.text),
        "success": call.failure is None,
        "value": value,
        "tool": tool,
        "arguments_digest": digest(call),
    }
    if call.turn:
        facts["turn"] = call.turn
    if call.started_at is not None:
        facts["duration_seconds"] = max(0.0, call.finished_at - call.started_at)
    if call.failure is not None:
        facts["failure"] = call.failure
    if call.decided_by is not None:
        facts.update(
            decided_by=call.decided_by, was_edited=call.was_edited, waited_seconds=call.waited
        )
    if call.depth:
        facts.update(depth=call.depth, parent_call_id=call.parent.call_id if call.parent else None)
    if call.caller is not None:
        facts.update(principal=call.caller.principal, transport=call.caller.transport)
    if call.artifact_id is not None:
        facts["artifact_id"] = call.artifact_id
    return facts


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
