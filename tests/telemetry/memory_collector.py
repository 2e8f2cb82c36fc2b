"""What an application's OpenTelemetry SDK would have got: spans and metrics, kept in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from toolcrib import EventBus, Session
from toolcrib.telemetry import Instrumentation, instrument

Labels = frozenset[tuple[str, Any]]


def labels(**named: str) -> Labels:
    """Labels of a metric, by short names."""
    long = {
        "tool": "gen_ai.tool.name",
        "type": "gen_ai.tool.type",
        "agent": "gen_ai.agent.name",
        "error": "error.type",
        "decision": "toolcrib.approval.decision",
        "actor": "toolcrib.approval.actor.kind",
    }
    told = {"type": "function", **named}
    return frozenset((long[name], value) for name, value in told.items())


class Collected:
    """An SDK of its own for each test: nothing global is touched."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(sampler, shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tracer = self.tracers.get_tracer("application")

    def watch(self, source: Session | EventBus, **options: Any) -> Instrumentation:
        return instrument(
            source, tracer_provider=self.tracers, meter_provider=self.meters, **options
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        """All spans that ended, in the order they did."""
        return list(self._exporter.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def span(self, name: str) -> ReadableSpan:
        """The one span of this name."""
        (found,) = self.all(name)
        return found

    def all(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def tree(self) -> dict[str, list[str]]:
        """The names of the spans under each name; roots are under an empty one."""
        ids = {_id(span): span.name for span in self.spans}
        tree: dict[str, list[str]] = {}
        for span in sorted(self.spans, key=lambda span: span.start_time or 0):
            parent = "" if span.parent is None else ids.get(span.parent.span_id, "elsewhere")
            tree.setdefault(parent, []).append(span.name)
        return tree

    def metric(self, name: str) -> Metric | None:
        data = self._reader.get_metrics_data()
        if data is None:
            return None
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        found = [each for scope in scopes for each in scope.metrics if each.name == name]
        return found[0] if found else None

    def counts(self, name: str) -> dict[Labels, Any]:
        """The values of a counter, by labels."""
        return {key: point.value for key, point in self._points(name).items()}

    def durations(self, name: str = "gen_ai.execute_tool.duration") -> dict[Labels, list[float]]:
        """Count and sum of a histogram, by labels."""
        return {key: [each.count, each.sum] for key, each in self._points(name).items()}

    def everything(self) -> str:
        """All that left, in one text."""
        data = self._reader.get_metrics_data()
        return "".join([span.to_json() for span in self.spans]) + (data.to_json() if data else "")

    def _points(self, name: str) -> dict[Labels, Any]:
        metric = self.metric(name)
        points: list[Any] = [] if metric is None else list(metric.data.data_points)
        return {frozenset(dict[str, Any](each.attributes).items()): each for each in points}


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


def seconds(span: ReadableSpan) -> tuple[float, float]:
    """When a span began and how long it took."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9, (span.end_time - span.start_time) / 1e9


def is_failed(span: ReadableSpan) -> bool:
    return not span.status.is_ok


def _id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id
