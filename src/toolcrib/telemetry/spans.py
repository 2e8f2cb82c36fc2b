"""Spans with given start times, and the OpenTelemetry context of running handlers.

The span of a handler's run is current while the handler runs, so that its calls, its prompts and
its own spans are children of it, also in other tasks and threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from opentelemetry.context import attach, create_key, get_current, get_value, set_value
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context

from toolcrib.telemetry.conventions import ERROR_TYPE, Attributes

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Tracer

    from toolcrib.session.turns import OpenTurn


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


_RUN: Final = create_key("toolcrib-run")


@dataclass(slots=True, eq=False)
class HandlerRun:
    """One run of a handler, and its span. `labels` are the attributes of its metrics."""

    span: Span
    labels: Attributes
    started_at: float
    turn: OpenTurn | None
    outer: HandlerRun | None
    """The run whose handler made this call."""
    outer_context: Context
    """The context that was current before the run."""
    _waiting: set[str] = field(default_factory=set[str])
    _waiting_since: float = 0.0
    _waited: float = 0.0

    def pause(self, call_id: str, at: float) -> None:
        """A call of the handler begins to wait for a decision."""
        if not self._waiting:
            self._waiting_since = at
        self._waiting.add(call_id)

    def resume(self, call_id: str, at: float) -> None:
        """A call of the handler no longer waits, if it did."""
        if call_id in self._waiting:
            self._waiting.remove(call_id)
            if not self._waiting:
                self._waited += at - self._waiting_since

    def seconds(self, at: float) -> float:
        """How long the handler has run, without the time in which its calls waited."""
        return max(0.0, at - self.started_at - self._waited)


def current_run() -> HandlerRun | None:
    """The innermost run that the calling code is part of."""
    run = get_value(_RUN)
    return run if isinstance(run, HandlerRun) else None


def current_runs() -> Iterator[HandlerRun]:
    """All runs that the calling code is part of, innermost first."""
    run = current_run()
    while run is not None:
        yield run
        run = run.outer


def enter(run: HandlerRun, parent: Context) -> None:
    """Make the run current in this task."""
    attach(set_value(_RUN, run, set_span_in_context(run.span, parent)))


def leave(run: HandlerRun) -> None:
    """Restore the context from before the run.

    Not by token: a coroutine may be closed in another context than the one it ran in, where the
    token is invalid.
    """
    if get_value(_RUN, get_current()) is run:
        attach(run.outer_context)
