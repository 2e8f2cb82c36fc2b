"""What is counted and measured, for each tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.telemetry.conventions import (
    AGENT_NAME,
    APPROVAL_ACTOR,
    APPROVAL_DECISION,
    APPROVAL_DECISIONS,
    APPROVAL_REQUESTS,
    CALL_ERRORS,
    CALL_TIMEOUTS,
    CALLS,
    CALLS_ACTIVE,
    COST,
    DURATION_BUCKETS,
    ERROR_TYPE,
    EXECUTE_TOOL_DURATION,
    OTHER,
    TOOL_NAME,
    TOOL_TYPE,
    UNRECORDED,
    Attributes,
    tool_type,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

    from toolcrib.approval.decision import Decided
    from toolcrib.failures import Failure
    from toolcrib.prices.cost import Cost
    from toolcrib.tools.identity import ToolRef


class Metrics:
    """The metric instruments. `labels` are attributes with few different values."""

    def __init__(self, meter: Meter) -> None:
        self._duration = meter.create_histogram(
            EXECUTE_TOOL_DURATION,
            "s",
            "How long tools ran, without waiting for decisions.",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )
        self._calls = meter.create_counter(CALLS, "{call}", "Calls that have ended.")
        self._errors = meter.create_counter(CALL_ERRORS, "{error}", "Calls that failed, by kind.")
        self._timeouts = meter.create_counter(CALL_TIMEOUTS, "{call}", "Calls that timed out.")
        self._active = meter.create_up_down_counter(
            CALLS_ACTIVE, "{call}", "Calls that are running."
        )
        self._requests = meter.create_counter(APPROVAL_REQUESTS, "{request}", "Approval requests.")
        self._decisions = meter.create_counter(
            APPROVAL_DECISIONS,
            "{decision}",
            "Decisions on approval requests, by decision and kind of actor.",
        )
        self._cost = meter.create_counter(
            COST, "{USD}", "US dollars for requests to models and for provider-run calls."
        )

    def add_cost(self, labels: Attributes, cost: Cost | None) -> None:
        """Count what a request to a model, or a provider-run call, cost."""
        dollars = None if cost is None else cost.dollars
        if dollars is not None:
            self._cost.add(dollars, labels)

    def handler_started(self, labels: Attributes) -> None:
        """A handler starts to run."""
        self._active.add(1, labels)

    def handler_ended(self, labels: Attributes) -> None:
        """A handler no longer runs."""
        self._active.add(-1, labels)

    def record_duration(self, labels: Attributes, seconds: float, failure: Failure | None) -> None:
        """Record the duration of a run."""
        self._duration.record(seconds, _with_error(labels, failure))

    def call_ended(self, labels: Attributes, failure: Failure | None) -> None:
        """A call has ended, whether or not its handler ran."""
        self._calls.add(1, labels)
        if failure is None:
            return
        self._errors.add(1, _with_error(labels, failure))
        if failure.kind == "timeout":
            self._timeouts.add(1, labels)

    def call_unrecorded(self, labels: Attributes) -> None:
        """A call has ended, and its end could not be recorded: the outcome is unknown."""
        self._calls.add(1, labels)
        self._errors.add(1, labels | {ERROR_TYPE: UNRECORDED})

    def approval_requested(self, tool: ToolRef) -> None:
        """An approval request was made."""
        self._requests.add(1, labels_of(tool))

    def approval_decided(self, tool: ToolRef | None, decided: Decided) -> None:
        """An approval request was decided."""
        outcome = {
            APPROVAL_DECISION: decided.decision.kind,
            APPROVAL_ACTOR: decided.actor.kind,
        }
        self._decisions.add(1, labels_of(tool) | outcome)


def labels_of(
    tool: ToolRef | None, agent: str | None = None, capability: str | None = None
) -> Attributes:
    """The attributes of a tool's metrics. Calls of unknown tools share one name: a model may use
    any name.
    """
    labels: Attributes = {
        TOOL_NAME: OTHER if tool is None else tool.name,
        TOOL_TYPE: tool_type(tool, capability),
    }
    if agent is not None:
        labels[AGENT_NAME] = agent
    return labels


def _with_error(labels: Attributes, failure: Failure | None) -> Attributes:
    return labels if failure is None else labels | {ERROR_TYPE: failure.kind}
