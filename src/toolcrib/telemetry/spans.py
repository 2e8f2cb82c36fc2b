"""Spans with given start times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opentelemetry.trace import Span, SpanKind, StatusCode

from toolcrib.telemetry.conventions import ERROR_TYPE, Attributes

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Tracer


class SpanFactory:
    """Starts spans with all known attributes, which a sampler may read."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def start(
        self,
        name: str,
        at: float,
        attributes: Attributes,
        parent: Context,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
    ) -> Span:
        """Start a span at `at`, in seconds since the epoch."""
        return self._tracer.start_span(
            name,
            context=parent,
            kind=kind,
            attributes=attributes,
            links=links,
            start_time=nanoseconds(at),
        )


def nanoseconds(at: float) -> int:
    """The time of an event in nanoseconds, as OpenTelemetry counts."""
    return int(at * 1e9)


def fail(span: Span, error_type: str, description: str | None = None) -> None:
    """Mark a span as failed; `error_type` is one of a small set."""
    span.set_status(StatusCode.ERROR, description)
    span.set_attribute(ERROR_TYPE, error_type)
