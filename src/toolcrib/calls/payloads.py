"""What a call's records say: as events for subscribers, as JSON for the ledger.

A ledger is written for every call, so its JSON is put together from parts that are JSON already
(the tool's reference, the arguments, the rendered value) instead of being encoded from an event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from toolcrib.calls.redact import scrub, shown_arguments, shown_value
from toolcrib.calls.validate import digest
from toolcrib.session.encoding import encode_facts
from toolcrib.session.events import CallStarted, ToolInvoked

if TYPE_CHECKING:
    from toolcrib.calls.call import Call


def build_started(call: Call) -> CallStarted:
    """The event that the handler is about to run."""
    assert call.started_at is not None
    return CallStarted(
        session_id=call.session.session_id,
        at=call.started_at,
        call_id=call.call_id,
        tool=call.tool.ref,
        arguments_digest=digest(call),
        attempt=call.attempt,
    )


def encode_started(call: Call) -> bytes:
    """The same event as a payload."""
    facts = b'{"tool":%b,"arguments_digest":"%b","attempt":%d}'
    return facts % (call.tool.ref_json, digest(call).encode(), call.attempt)


def build_live(call: Call) -> ToolInvoked:
    """The event that a call is over, for subscribers in this process: they get the typed value."""
    has_secrets = call.prepared is not None and call.prepared.redactor is not None
    value = shown_value(call) if has_secrets else call.value
    return ToolInvoked(
        session_id=call.session.session_id,
        at=call.finished_at,
        call_id=call.call_id,
        name=call.name,
        params=shown_arguments(call),
        message=scrub(call, call.text),
        value=value,
        tool=call.prepared.ref if call.prepared else call.frozen_ref,
        **_end_facts(call),
    )


def encode_invoked(call: Call) -> bytes:
    """The same event as a payload, from parts that nobody can change any more.

    The typed value may be mutable and belongs to the application by now, so the record is made
    from the JSON that was rendered when the call ended.
    """
    tool = call.prepared
    facts = _end_facts(call)
    if not call.is_plain_text:
        # Otherwise what the model saw is the value itself, and a reader renders it again.
        facts["message"] = scrub(call, call.text)
    parts = b'{"name":%b,"tool":%b,"params":%b,"value":%b,%b'
    return parts % (
        encode_facts(call.name),
        tool.ref_json if tool else to_json(call.frozen_ref),
        _params_json(call),
        _value_json(call),
        encode_facts(facts)[1:],
    )


def _params_json(call: Call) -> bytes:
    """The arguments as they came, where they are known to be JSON and to hold no secret."""
    tool = call.prepared
    is_sound = call.failure is None and tool is not None and tool.redactor is None
    # The parser also takes NaN and Infinity, which JSON has not.
    if is_sound and b"NaN" not in call.arguments and b"Infinity" not in call.arguments:
        return call.arguments
    return encode_facts(shown_arguments(call))


def _value_json(call: Call) -> bytes:
    tool = call.prepared
    if call.value_json is not None and tool is not None and tool.redactor is None:
        return call.value_json
    return encode_facts(shown_value(call))


def _end_facts(call: Call) -> dict[str, Any]:
    """How the call ended; facts at their default are left out."""
    facts: dict[str, Any] = {
        "success": call.failure is None,
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
    if call.parent_call_id is not None:
        facts.update(depth=call.depth, parent_call_id=call.parent_call_id)
    if call.caller is not None:
        facts.update(principal=call.caller.principal, transport=call.caller.transport)
    if call.artifact_id is not None:
        facts["artifact_id"] = call.artifact_id
    return facts
