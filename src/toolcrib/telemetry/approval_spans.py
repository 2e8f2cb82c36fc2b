"""Spans of waiting for somebody's decision, from the question to the answer."""

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
from toolcrib.telemetry.run_context import current_runs
from toolcrib.telemetry.spans import nanoseconds

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested, ToolInvoked
    from toolcrib.telemetry.metrics import Metrics
    from toolcrib.telemetry.spans import SpanFactory
    from toolcrib.telemetry.turn_spans import TurnTracker

MAX_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class RememberedRequest:
    """A question, and in which span it was asked, where that is known."""

    request: ApprovalRequest
    where: SpanContext | None = None


class ApprovalSpans:
    """The questions that were asked here. A decision may be on one of another process, or of
    long ago: what is not remembered is looked up.
    """

    def __init__(
        self, spans: SpanFactory, metrics: Metrics, turns: TurnTracker, *, captures_content: bool
    ) -> None:
        self._spans = spans
        self._metrics = metrics
        self._turns = turns
        self._captures_content = captures_content
        self._asked: dict[str, RememberedRequest] = {}

    def ask(self, event: ApprovalRequested) -> None:
        """A call waits. So do the handlers around it, if it is within others."""
        request = event.request
        self._metrics.asked(request.tool)
        where = get_current_span(self._turns.parent(turn_here())).get_span_context()
        self._remember(RememberedRequest(request, where))
        for run in current_runs():
            run.hold(event.call_id, event.at)

    def decide(self, event: ApprovalDecided) -> None:
        """A call no longer waits."""
        decided = event.decided
        for run in current_runs():
            run.release(event.call_id, event.at)
        asked = self._asked.pop(decided.approval_id, None) or _filed(event)
        self._metrics.decided(asked.request.tool if asked else None, decided)
        if asked is not None:
            self._record(asked, decided)

    def finish(self, event: ToolInvoked) -> None:
        """A call that is over waits no more, whether or not somebody decided."""
        for run in current_runs():
            run.release(event.call_id, event.at)

    def _remember(self, asked: RememberedRequest) -> None:
        while len(self._asked) >= MAX_REMEMBERED:
            del self._asked[next(iter(self._asked))]
        self._asked[asked.request.approval_id] = asked

    def _record(self, asked: RememberedRequest, decided: Decided) -> None:
        request = asked.request
        parent = self._turns.parent(turn_here())
        span = self._spans.start(
            APPROVAL_WAIT,
            request.created_at,
            self._facts(request, decided),
            parent,
            links=_links(asked, parent),
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


def _filed(event: ApprovalDecided) -> RememberedRequest | None:
    """The question as the store has it. Decisions come at people's pace, so it may be asked."""
    call = call_here()
    if call is None or call.session.session_id != event.session_id:
        return None
    filed = call.session.store.approval(event.decided.approval_id)
    return None if filed is None else RememberedRequest(filed.request)


def _links(asked: RememberedRequest, parent: Context) -> tuple[Link, ...]:
    """From the trace that goes on to the one that asked, where they are not the same."""
    here = get_current_span(parent).get_span_context()
    if asked.where is None or not asked.where.is_valid or asked.where.trace_id == here.trace_id:
        return ()
    return (Link(asked.where),)
