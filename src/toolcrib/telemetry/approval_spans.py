"""Spans of approval requests, from the request to the decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import Link, SpanContext, get_current_span

from toolcrib.approval.decision import Approve, Decided, Deny
from toolcrib.session.turns import call_here, turn_here
from toolcrib.telemetry.conventions import (
    APPROVAL_ACTOR,
    APPROVAL_DECISION,
    APPROVAL_EDITED,
    APPROVAL_ID,
    APPROVAL_REASON,
    APPROVAL_RULE,
    APPROVAL_WAIT,
    CONVERSATION_ID,
    TOOL_CALL_ID,
    Attributes,
)
from toolcrib.telemetry.metrics import labels_of
from toolcrib.telemetry.spans import current_runs, nanoseconds

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested, ToolInvoked
    from toolcrib.telemetry.metrics import Metrics
    from toolcrib.telemetry.spans import SpanFactory
    from toolcrib.telemetry.turn_spans import TurnTracker

MAX_REQUESTS: Final = 1000


@dataclass(frozen=True, slots=True)
class RememberedRequest:
    """An approval request, and the span in which it was made, if that is known."""

    request: ApprovalRequest
    span: SpanContext | None = None


class ApprovalSpans:
    """The spans of approval requests. The last requests of this process are remembered; those of
    another process, or of long ago, are read from the store.
    """

    def __init__(
        self, spans: SpanFactory, metrics: Metrics, turns: TurnTracker, *, captures_content: bool
    ) -> None:
        self._spans = spans
        self._metrics = metrics
        self._turns = turns
        self._captures_content = captures_content
        self._requests: dict[str, RememberedRequest] = {}

    def ask(self, event: ApprovalRequested) -> None:
        """Remember a call's request, and pause the runs of the handlers around the call."""
        request = event.request
        self._metrics.approval_requested(request.tool)
        span = get_current_span(self._turns.parent(turn_here())).get_span_context()
        self._remember(RememberedRequest(request, span))
        for run in current_runs():
            run.pause(event.call_id, event.at)

    def decide(self, event: ApprovalDecided) -> None:
        """Record the span of a decided request."""
        decided = event.decided
        for run in current_runs():
            run.resume(event.call_id, event.at)
        remembered = self._requests.pop(decided.approval_id, None) or _stored(event)
        self._metrics.approval_decided(remembered.request.tool if remembered else None, decided)
        if remembered is not None:
            self._record(remembered, decided)

    def finish(self, event: ToolInvoked) -> None:
        """A call that has ended no longer waits, decided or not."""
        for run in current_runs():
            run.resume(event.call_id, event.at)

    def _remember(self, remembered: RememberedRequest) -> None:
        while len(self._requests) >= MAX_REQUESTS:
            del self._requests[next(iter(self._requests))]
        self._requests[remembered.request.approval_id] = remembered

    def _record(self, remembered: RememberedRequest, decided: Decided) -> None:
        request = remembered.request
        parent = self._turns.parent(turn_here())
        span = self._spans.start(
            APPROVAL_WAIT,
            request.created_at,
            self._facts(request, decided),
            parent,
            links=_links(remembered, parent),
        )
        span.end(nanoseconds(max(decided.at, request.created_at)))

    def _facts(self, request: ApprovalRequest, decided: Decided) -> Attributes:
        decision = decided.decision
        facts: Attributes = {
            **labels_of(request.tool),
            TOOL_CALL_ID: request.call_id,
            CONVERSATION_ID: request.session_id,
            APPROVAL_ID: request.approval_id,
            APPROVAL_RULE: request.rule,
            APPROVAL_DECISION: decision.kind,
            APPROVAL_ACTOR: decided.actor.kind,
        }
        if isinstance(decision, Approve) and decision.arguments is not None:
            facts[APPROVAL_EDITED] = True
        if isinstance(decision, Deny) and self._captures_content:
            facts[APPROVAL_REASON] = decision.reason
        return facts


def _stored(event: ApprovalDecided) -> RememberedRequest | None:
    """The request from the store. Decisions are rare enough to read it."""
    call = call_here()
    if call is None or call.session.session_id != event.session_id:
        return None
    stored = call.session.store.approval(event.decided.approval_id)
    return None if stored is None else RememberedRequest(stored.request)


def _links(remembered: RememberedRequest, parent: Context) -> tuple[Link, ...]:
    """A link from the current trace to the trace of the request, if they differ."""
    here = get_current_span(parent).get_span_context()
    span = remembered.span
    if span is None or not span.is_valid or span.trace_id == here.trace_id:
        return ()
    return (Link(span),)
