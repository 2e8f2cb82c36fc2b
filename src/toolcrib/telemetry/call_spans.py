"""Spans of calls, from the start of the handler to the end of the call.

The time before, such as waiting for an approval, is not part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.context import get_current

from toolcrib.session.turns import turn_here
from toolcrib.telemetry.conventions import (
    CALL_ATTEMPT,
    CALL_DECIDED_BY,
    CALL_EXCEPTION,
    CALL_OUTCOME,
    CALL_STILL_RUNNING,
    CONVERSATION_ID,
    EXECUTE_TOOL,
    OPERATION_NAME,
    PRINCIPAL,
    PRINCIPAL_GROUPS,
    TOOL_CALL_ID,
    TOOL_PLACE,
    TOOL_SOURCE,
    UNRECORDED,
    Attributes,
    call_content,
)
from toolcrib.telemetry.metrics import labels_of
from toolcrib.telemetry.spans import HandlerRun, current_run, enter, fail, leave, nanoseconds

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from toolcrib.failures import Failure
    from toolcrib.ledger.events import (
        ApprovalRequested,
        CallDeferred,
        CallStarted,
        CallUnrecorded,
        ToolInvoked,
    )
    from toolcrib.telemetry.metrics import Metrics
    from toolcrib.telemetry.spans import SpanFactory
    from toolcrib.telemetry.turn_spans import TurnTracker

CallKey = tuple[str, str]


class CallSpans:
    """The spans of the running calls."""

    def __init__(
        self, spans: SpanFactory, metrics: Metrics, turns: TurnTracker, *, captures_content: bool
    ) -> None:
        self._spans = spans
        self._metrics = metrics
        self._turns = turns
        self._captures_content = captures_content
        self._open: dict[CallKey, HandlerRun] = {}

    def start(self, event: CallStarted) -> None:
        """Start the span of a handler that runs in this context."""
        key = (event.session_id, event.call_id)
        # A handler may require an approval that a grant gives at once; then it runs again.
        self._end(self._open.pop(key, None), event.at, None, "waiting")
        turn = turn_here()
        labels = labels_of(event.tool, self._turns.agent(turn))
        parent = self._turns.parent(turn)
        span = self._spans.start(
            f"{EXECUTE_TOOL} {event.tool.name}", event.at, _facts(event, labels), parent
        )
        run = HandlerRun(span, labels, event.at, turn, current_run(), get_current())
        self._open[key] = run
        enter(run, parent)
        self._metrics.handler_started(labels)

    def ask(self, event: ApprovalRequested | CallDeferred) -> None:
        """End the run of a call whose handler required an approval, or handed the call over."""
        run = self._open.pop((event.session_id, event.call_id), None)
        self._end(run, event.at, None, "waiting")

    def finish(self, event: ToolInvoked) -> None:
        """End the span of a call, if its handler ran."""
        run = self._open.pop((event.session_id, event.call_id), None)
        if run is not None and run.span.is_recording():
            run.span.set_attributes(self._end_facts(event))
        self._end(run, event.at, event.failure, "completed" if event.success else "failed")

    def lose(self, event: CallUnrecorded) -> None:
        """End the span of a call whose end could not be recorded."""
        run = self._open.pop((event.session_id, event.call_id), None)
        if run is not None:
            fail(run.span, UNRECORDED)
        self._end(run, event.at, None, "failed")

    def close(self) -> None:
        """End the spans of the calls that still run."""
        while self._open:
            _, run = self._open.popitem()
            self._metrics.handler_ended(run.labels)
            run.span.end()

    def _end(
        self, run: HandlerRun | None, at: float, failure: Failure | None, outcome: str
    ) -> None:
        if run is None:
            return
        span = run.span
        if span.is_recording():
            span.set_attribute(CALL_OUTCOME, outcome)
            if failure is not None:
                _fail(span, failure, self._captures_content)
        # While the span is current, so that measurements can link to it.
        self._metrics.record_duration(run.labels, run.seconds(at), failure)
        self._metrics.handler_ended(run.labels)
        leave(run)
        span.end(nanoseconds(max(at, run.started_at)))

    def _end_facts(self, event: ToolInvoked) -> Attributes:
        facts: Attributes = {}
        if event.decided_by is not None:
            # Only the kind: the name may be a person's.
            facts[CALL_DECIDED_BY] = event.decided_by.kind
        return facts | call_content(event) if self._captures_content else facts


def _facts(event: CallStarted, labels: Attributes) -> Attributes:
    facts: Attributes = {
        OPERATION_NAME: EXECUTE_TOOL,
        **labels,
        TOOL_CALL_ID: event.call_id,
        CONVERSATION_ID: event.session_id,
        TOOL_SOURCE: event.tool.source,
        TOOL_PLACE: event.tool.place,
    }
    if event.principal is not None:
        facts[PRINCIPAL] = event.principal
    if event.groups:
        facts[PRINCIPAL_GROUPS] = ",".join(event.groups)
    if event.attempt > 1:
        facts[CALL_ATTEMPT] = event.attempt
    return facts


def _fail(span: Span, failure: Failure, captures_content: bool) -> None:
    fail(span, failure.kind, failure.message if captures_content else None)
    if failure.error_type is not None:
        span.set_attribute(CALL_EXCEPTION, failure.error_type)
    if failure.still_running:
        span.set_attribute(CALL_STILL_RUNNING, True)
