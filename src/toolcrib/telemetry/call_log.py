"""A log line for every call: which tool, what came of it, how long it took, and who asked.

Arguments, results and messages of failures are not logged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from toolcrib.ledger.events import ApprovalRequested, CallUnrecorded, ToolInvoked
from toolcrib.logs import LogFacts, log_facts
from toolcrib.session.turns import call_here

if TYPE_CHECKING:
    from toolcrib.session.bus import EventBus

_log = logging.getLogger("toolcrib.calls")


def log_calls(bus: EventBus) -> None:
    """Log the calls of a bus, unless the level leaves them out."""
    if not _log.isEnabledFor(logging.ERROR):
        return
    bus.subscribe(CallUnrecorded, _on_unrecorded)
    if _log.isEnabledFor(logging.INFO):
        bus.subscribe(ToolInvoked, _on_invoked)
        bus.subscribe(ApprovalRequested, _on_requested)


def call_facts() -> LogFacts:
    """The session and the call that the running code is part of, for every line it logs."""
    call = call_here()
    if call is None:
        return {}
    return {"session_id": call.session.session_id, "call_id": call.call_id}


def _on_invoked(event: ToolInvoked) -> None:
    failure = event.failure
    status = "completed" if failure is None else failure.kind
    facts: dict[str, Any] = {
        "principal": event.principal,
        "session_id": event.session_id,
        "call_id": event.call_id,
        "tool": event.name[:128],
        "status": status,
        "seconds": round(event.duration_seconds, 6),
        "waited_seconds": round(event.waited_seconds, 3) or None,
        "decided_by": None if event.decided_by is None else event.decided_by.kind,
        "error": None if failure is None else failure.error_type,
        "transport": event.transport,
    }
    log_facts(_log, logging.INFO, "call %s", status, facts=facts)


def _on_requested(event: ApprovalRequested) -> None:
    request = event.request
    facts: dict[str, Any] = {
        "principal": request.caller.principal,
        "session_id": event.session_id,
        "call_id": event.call_id,
        "tool": request.tool.name,
        "approval_id": request.approval_id,
        "status": "waiting",
    }
    log_facts(_log, logging.INFO, "call waiting for approval", facts=facts)


def _on_unrecorded(event: CallUnrecorded) -> None:
    facts: dict[str, Any] = {
        "session_id": event.session_id,
        "call_id": event.call_id,
        "tool": None if event.tool is None else event.tool.name,
        "error": event.reason,
        "status": "unrecorded",
    }
    log_facts(_log, logging.ERROR, "the end of a call was not recorded", facts=facts)
