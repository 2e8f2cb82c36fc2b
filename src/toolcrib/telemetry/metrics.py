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
    from toolcrib.tools.identity import ToolRef


class Metrics:
    """The instruments. Each is told apart by `labels`, of which there are few."""

    def __init__(self, meter: Meter) -> None:
        self._duration = meter.create_histogram(
            EXECUTE_TOOL_DURATION,
            "s",
            "How long tools ran, without waiting for people.",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )
        self._calls = meter.create_counter(CALLS, "{call}", "Calls that are over.")
        self._errors = meter.create_counter(CALL_ERRORS, "{error}", "Calls that failed, by kind.")
        self._timeouts = meter.create_counter(
            CALL_TIMEOUTS, "{call}", "Calls that were out of time."
        )
        self._active = meter.create_up_down_counter(
            CALLS_ACTIVE, "{call}", "Calls that are running."
        )
        self._requests = meter.create_counter(
            APPROVAL_REQUESTS, "{request}", "Calls that somebody was asked about."
        )
        self._decisions = meter.create_counter(
            APPROVAL_DECISIONS, "{decision}", "Decisions on calls, by outcome and kind of actor."
        )

    def began(self, labels: Attributes) -> None:
        """A handler runs."""
        self._active.add(1, labels)

    def ended(self, labels: Attributes) -> None:
        """It runs no more."""
        self._active.add(-1, labels)

    def took(self, labels: Attributes, seconds: float, failure: Failure | None) -> None:
        """A run took so long."""
        self._duration.record(seconds, _with_error(labels, failure))

    def over(self, labels: Attributes, failure: Failure | None) -> None:
        """A call is over, whether or not anything ran."""
        self._calls.add(1, labels)
        if failure is None:
            return
        self._errors.add(1, _with_error(labels, failure))
        if failure.kind == "timeout":
            self._timeouts.add(1, labels)

    def lost(self, labels: Attributes) -> None:
        """A call is over and its end could not be written down: how it ended is not known."""
        self._calls.add(1, labels)
        self._errors.add(1, labels | {ERROR_TYPE: UNRECORDED})

    def asked(self, tool: ToolRef) -> None:
        """Somebody was asked about a call."""
        self._requests.add(1, labels_of(tool))

    def decided(self, tool: ToolRef | None, decided: Decided) -> None:
        """A call that somebody was asked about was decided."""
        outcome = {
            APPROVAL_DECISION: decided.decision.kind,
            APPROVAL_ACTOR: decided.actor.kind,
        }
        self._decisions.add(1, labels_of(tool) | outcome)


def labels_of(
    tool: ToolRef | None, agent: str | None = None, capability: str | None = None
) -> Attributes:
    """What metrics of a tool are told apart by. A model may call what there is not, by any name."""
    labels: Attributes = {
        TOOL_NAME: OTHER if tool is None else tool.name,
        TOOL_TYPE: tool_type(tool, capability),
    }
    if agent is not None:
        labels[AGENT_NAME] = agent
    return labels


def _with_error(labels: Attributes, failure: Failure | None) -> Attributes:
    return labels if failure is None else labels | {ERROR_TYPE: failure.kind}
