"""Stages six and ten, start and finish: the records that a call leaves in the ledger.

"Started" is in the ledger before the handler runs, so that a crash leaves no call unknown; one
`tool.invoked` follows, whatever the end was. A record is built as an event for subscribers and as
JSON for the ledger, both from the same facts.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from toolcrib.approval.caller import NOBODY, Caller
from toolcrib.calls.call import calls_of
from toolcrib.calls.digest import digest
from toolcrib.calls.recorded_call import digest_of_request
from toolcrib.calls.redaction import has_secrets, scrub, shown_arguments, shown_value
from toolcrib.ledger.encoding import encode_facts, is_readable
from toolcrib.ledger.events import CallDeferred, CallStarted, CallUnrecorded, ToolInvoked
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
from toolcrib.store.verification import artifact_digest

if TYPE_CHECKING:
    from toolcrib.approval.decision import Decided
    from toolcrib.calls.call import Call


def build_started(call: Call) -> CallStarted:
    """The event that the handler is about to run."""
    assert call.started_at is not None
    caller = call.caller or NOBODY
    return CallStarted(
        session_id=call.session.session_id,
        at=call.started_at,
        call_id=call.call_id,
        tool=call.tool.ref,
        arguments_digest=digest(call),
        attempt=call.attempt,
        principal=caller.principal,
        groups=tuple(sorted(caller.groups)),
    )


def encode_started(call: Call) -> bytes:
    """The same event as a payload; the tool's reference is JSON already."""
    facts = b'{"tool":%b,"arguments_digest":"%b","attempt":%d%b}'
    asker = b"" if call.caller is None else _asker_json(call.caller)
    return facts % (call.tool.ref_json, digest(call).encode(), call.attempt, asker)


@lru_cache(maxsize=256)
def _asker_json(caller: Caller) -> bytes:
    """The principal and its groups, behind other facts of an event."""
    if caller.principal is None:
        return b""
    facts = {"principal": caller.principal, "groups": sorted(caller.groups)}
    return b"," + encode_facts(facts)[1:-1]


def build_invoked(call: Call) -> ToolInvoked:
    """The event that a call is over, for subscribers in this process: they get the typed value."""
    return ToolInvoked(
        session_id=call.session.session_id,
        at=call.finished_at,
        call_id=call.call_id,
        tool=call.prepared.ref if call.prepared else call.frozen_ref,
        params=shown_arguments(call),
        message=scrub(call, call.text),
        value=shown_value(call) if has_secrets(call) else call.value,
        **_end_facts(call),
    )


def encode_invoked(call: Call) -> bytes:
    """The same event as a payload, from parts that nobody can change any more.

    The typed value may be mutable and belongs to the application by now, so the record is made
    from the JSON that was rendered when the call ended.
    """
    facts = _end_facts(call)
    if not call.is_plain_text:
        # Otherwise what the model saw is the value itself, and a reader renders it again.
        facts["message"] = scrub(call, call.text)
    tool, arguments, value = call.prepared, call.arguments, call.value_json
    is_open = tool is not None and not has_secrets(call)
    if not is_open or call.failure is not None or _is_not_json(arguments):
        arguments = encode_facts(shown_arguments(call))
    if value is None or not is_open:
        value = encode_facts(shown_value(call))
    # The three large parts are JSON already, where they hold no secret. To parse and encode them
    # again costs as much as the rest of the record: 2.2x the floor of the bench.
    return b'{"tool":%b,"params":%b,"value":%b,%b' % (
        tool.ref_json if tool else encode_facts(call.frozen_ref),
        arguments,
        value,
        encode_facts(facts)[1:],
    )


def _is_not_json(arguments: bytes) -> bool:
    """Whether they cannot go into a record as they are: there may be a NaN or an Infinity, which
    the parser takes and JSON has not, or something that no reader of the record takes.
    """
    return b"NaN" in arguments or b"Infinity" in arguments or not is_readable(arguments)


def _end_facts(call: Call) -> dict[str, Any]:
    """How the call ended; facts that most calls have at their default are left out."""
    facts: dict[str, Any] = {
        "name": call.name,
        "success": call.failure is None,
        "arguments_digest": digest(call),
        "turn": call.turn,
        "duration_seconds": _duration(call),
    }
    if call.failure is not None:
        facts["failure"] = call.failure
    if call.decided_by is not None:
        facts.update(
            decided_by=call.decided_by, was_edited=call.was_edited, waited_seconds=call.waited
        )
    elif call.person is not None:
        facts["waited_seconds"] = call.waited
    if call.parent_call_id is not None:
        facts.update(depth=call.depth, parent_call_id=call.parent_call_id)
    if call.caller is not None:
        facts.update(principal=call.caller.principal, transport=call.caller.transport)
    if (requested := digest_of_request(call)) is not None:
        facts["request_digest"] = requested
    if call.artifact_id is not None:
        facts["artifact_id"] = call.artifact_id
        facts["artifact_digest"] = artifact_digest(_kept_text(call))
    if call.kept_metadata:
        facts["metadata"] = scrub(call, call.kept_metadata)
    return facts


def _duration(call: Call) -> float:
    if call.started_at is None:
        return 0.0
    waited = 0.0 if call.person is None else call.person.seconds
    return max(0.0, call.finished_at - call.started_at - waited)


UNLIMITED_SECONDS = 600.0
"""How long a handler without a time limit is taken to run on, in a process that is not known to be
dead, before somebody may have its call run again.
"""


def record_start(call: Call, timeout: float | None) -> Awaitable[None] | None:
    """Write "started" before the handler runs, with what another process needs to ask about it.
    `timeout` is the limit of tools that have none of their own.

    Await what is returned, if anything: then the record is durable.
    """
    session = call.session
    call.attempt += 1
    call.started_at = session.clock()
    ledger = session.ledger
    # In memory only calls that were asked about lie beside the ledger, because nobody else could
    # take the others up.
    if call.approval_id is not None or ledger.is_durable or call.attempt > 1:
        limit = call.tool.tool.timeout or timeout or UNLIMITED_SECONDS
        call.process, call.may_run_until = ledger.lease.holder, call.started_at + limit
        opened = CallOpened(open_call(call, "started"), must_survive=_has_effects(call))
        return session.record(build_started(call), (opened,))
    if session.is_heard:
        return session.record(build_started(call))
    ledger.append((CallStarted.kind, call.started_at, call.call_id, encode_started, call))
    return None


def _has_effects(call: Call) -> bool:
    """Whether to run the call again, because nobody knows that it ran, might do harm."""
    return not (call.tool.tool.is_idempotent or call.tool.tool.is_read_only)


def settle_start(call: Call) -> None:
    """Have the start of the call encoded as it was: what comes now may change the call."""
    if not call.session.ledger.is_durable:
        call.session.head()


def record_finish(call: Call) -> Awaitable[None] | None:
    """Write the end of the call. Await what is returned, if anything: then it is durable."""
    session = call.session
    _close(call)
    entry = (ToolInvoked.kind, call.finished_at, call.call_id, encode_invoked, call)
    durable = session.ledger.append(entry, _finish_effects(call))
    if durable is None and not session.is_heard:
        return None
    return session.announce_when(durable, lambda: build_invoked(call))


def record_finish_soon(call: Call) -> None:
    """Write the end of a call that is being torn down, without waiting."""
    session = call.session
    _close(call)
    entry = (ToolInvoked.kind, call.finished_at, call.call_id, encode_invoked, call)
    session.append_soon(entry, _finish_effects(call))
    if session.is_heard:
        session.announce(build_invoked(call))


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


async def record_deferral(call: Call) -> None:
    """Write that the call was handed over; it stays open until its result comes."""
    session = call.session
    event = CallDeferred(
        session_id=session.session_id,
        at=session.clock(),
        call_id=call.call_id,
        tool=call.tool.ref,
        params=shown_arguments(call),
        turn=call.turn,
        principal=call.caller.principal if call.caller is not None else None,
    )
    settle_start(call)
    await session.record(event, (CallOpened(open_call(call, "deferred")),))
    calls_of(session).waiting.add(call.call_id)


def put_down(call: Call) -> None:
    """The handler has nothing more to say or do: the call is over, or goes on as another one."""
    call.is_over = True
    if call.emitter is not None:
        call.emitter.close()
    if call.person is not None and call.person.questions:
        call.session.questions.withdraw_all("the call is over", call_id=call.call_id)


def _close(call: Call) -> None:
    call.finished_at = call.session.clock()
    put_down(call)
    if call.approval_id is not None:
        calls_of(call.session).waiting.discard(call.call_id)


def _finish_effects(call: Call) -> tuple[Effect, ...]:
    """What becomes durable together with the end of the call."""
    # A call that lies beside the ledger has the time when it was put there.
    is_kept_open = call.created_at is not None or call.session.ledger.is_durable
    if not is_kept_open and call.whole_text is None:
        return ()
    effects: list[Effect] = []
    if is_kept_open:
        effects.append(CallClosed(call.call_id))
    if call.approval_id is not None:
        effects.append(ApprovalUsed(call.approval_id))
    if call.whole_text is not None and call.artifact_id is not None:
        artifact = Artifact(call.artifact_id, call.call_id, _kept_text(call))
        effects.append(ArtifactKept(artifact))
    return tuple(effects)


def _kept_text(call: Call) -> str:
    """The whole result as it is kept."""
    return scrub(call, call.whole_text or "")


def open_call(call: Call, state: OpenCallState, decided: Decided | None = None) -> OpenCall:
    """The call as it lies beside the ledger while it is open."""
    if call.created_at is None:
        call.created_at = call.session.clock()
    return OpenCall(
        call_id=call.call_id,
        tool=call.tool.ref,
        arguments=call.arguments,
        submitted=None if call.submitted == call.arguments else call.submitted,
        digest=digest(call),
        request_digest=digest_of_request(call),
        state=state,
        created_at=call.created_at,
        has_secrets=has_secrets(call),
        approval_id=call.approval_id,
        parent_call_id=call.parent_call_id,
        depth=call.depth,
        turn=call.turn,
        attempt=call.attempt,
        was_edited=call.was_edited,
        decided=decided,
        caller=call.caller or NOBODY,
        tool_parts=call.tool.identity.parts,
        process=call.process,
        may_run_until=call.may_run_until,
    )
