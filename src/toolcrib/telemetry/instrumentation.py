"""Telemetry of a bus: every event goes to the spans and metrics that it concerns.

Events are published in the context of the code that they describe, so that spans are children of
the application's spans. Without an SDK that records, nothing is created.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self, TypeVar
from weakref import WeakSet

from opentelemetry.metrics import get_meter, get_meter_provider
from opentelemetry.trace import get_tracer, get_tracer_provider

from toolcrib._version import __version__
from toolcrib.errors import UsageError
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDeferred,
    CallStarted,
    CallUnrecorded,
    Event,
    ToolInvoked,
)
from toolcrib.ledger.prompt_events import (
    FilesStaged,
    HistoryCompacted,
    ModelAsked,
    ModelResponded,
    PromptAnswered,
    PromptResumed,
    PromptStarted,
    TurnEnded,
)
from toolcrib.session.turns import turn_here
from toolcrib.telemetry.approval_spans import ApprovalSpans
from toolcrib.telemetry.call_spans import CallSpans
from toolcrib.telemetry.conventions import OTHER, RESPONSE_MODEL
from toolcrib.telemetry.metrics import Metrics, labels_of
from toolcrib.telemetry.spans import SpanFactory
from toolcrib.telemetry.turn_spans import TurnTracker

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from toolcrib.session.bus import EventBus


class RecordingCheck:
    """Whether the providers record. Global providers may be set at any time, and then stay."""

    def __init__(
        self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
    ) -> None:
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._is_on = False

    @property
    def is_on(self) -> bool:
        """True once there is an SDK, or a replacement of one."""
        if not self._is_on:
            self._is_on = _records(self._tracer_provider or get_tracer_provider()) or _records(
                self._meter_provider or get_meter_provider()
            )
        return self._is_on


def _records(provider: TracerProvider | MeterProvider) -> bool:
    """Whether a provider records; the API's own placeholder providers do not."""
    return not type(provider).__module__.startswith(
        ("opentelemetry.trace", "opentelemetry.metrics")
    )


E = TypeVar("E", bound=Event)

_instrumented: Final[WeakSet[EventBus]] = WeakSet()


class Instrumentation:
    """Makes spans and metrics of the events of a bus, until it is closed; `instrument` creates one.

    Close it when no call runs, or use it as a context manager.
    """

    def __init__(
        self,
        bus: EventBus,
        *,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        captures_content: bool,
    ) -> None:
        _claim(bus)
        spans = SpanFactory(get_tracer("toolcrib", __version__, tracer_provider))
        self._bus = bus
        self._recording = RecordingCheck(tracer_provider, meter_provider)
        self._metrics = Metrics(get_meter("toolcrib", __version__, meter_provider))
        self._turns = TurnTracker(spans, captures_content=captures_content)
        self._calls = CallSpans(
            spans, self._metrics, self._turns, captures_content=captures_content
        )
        self._approvals = ApprovalSpans(
            spans, self._metrics, self._turns, captures_content=captures_content
        )
        self._unsubscribe = [
            self._subscribe(CallStarted, self._calls.start),
            self._subscribe(CallDeferred, self._calls.ask),
            self._subscribe(ToolInvoked, self._on_invoked),
            self._subscribe(CallUnrecorded, self._on_unrecorded),
            self._subscribe(ApprovalRequested, self._on_requested),
            self._subscribe(ApprovalDecided, self._on_decided),
            self._subscribe(PromptStarted, self._turns.start),
            self._subscribe(FilesStaged, self._on_staged),
            self._subscribe(ModelResponded, self._on_responded),
            self._subscribe(HistoryCompacted, self._on_compacted),
            self._subscribe(PromptAnswered, self._turns.finish),
            self._subscribe(PromptResumed, self._turns.start),
            self._subscribe(ModelAsked, self._turns.request),
            self._subscribe(TurnEnded, self._turns.end),
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unsubscribe from the bus, and end the open spans."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        _instrumented.discard(self._bus)
        self._calls.close()
        self._turns.close()

    def _subscribe(self, event_type: type[E], handle: Callable[[E], None]) -> Callable[[], None]:
        recording = self._recording

        def on_event(event: E) -> None:
            if recording.is_on:
                handle(event)

        return self._bus.subscribe(event_type, on_event)

    def _on_requested(self, event: ApprovalRequested) -> None:
        self._calls.ask(event)
        self._approvals.ask(event)
        self._turns.ask(event.call_id, event.at)

    def _on_decided(self, event: ApprovalDecided) -> None:
        self._approvals.decide(event)
        self._turns.decide(event.call_id, event.at)

    def _on_staged(self, event: FilesStaged) -> None:
        self._turns.move(event.at)

    def _on_unrecorded(self, event: CallUnrecorded) -> None:
        self._calls.lose(event)
        self._metrics.call_unrecorded(labels_of(event.tool, self._turns.agent(turn_here())))

    def _on_responded(self, event: ModelResponded) -> None:
        self._turns.answer(event)
        self._metrics.add_cost({RESPONSE_MODEL: event.model or OTHER}, event.cost)

    def _on_compacted(self, event: HistoryCompacted) -> None:
        self._metrics.add_cost({RESPONSE_MODEL: event.model or OTHER}, event.cost)

    def _on_invoked(self, event: ToolInvoked) -> None:
        self._calls.finish(event)
        self._approvals.finish(event)
        labels = labels_of(event.tool, self._turns.agent(turn_here()), event.capability)
        self._metrics.call_ended(labels, event.failure)
        self._metrics.add_cost(labels, event.cost)
        if event.origin == "provider" and event.duration_seconds > 0:
            self._metrics.record_duration(labels, event.duration_seconds, event.failure)
        self._turns.invoked(event)


def _claim(bus: EventBus) -> None:
    """Raise `UsageError` for a bus that is instrumented: it would count everything twice."""
    if bus in _instrumented:
        raise UsageError(
            "this bus is instrumented already, for every session on it; close that instrumentation "
            "first, or give the session a bus of its own"
        )
    _instrumented.add(bus)
