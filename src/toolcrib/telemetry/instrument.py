"""`instrument`: turn on telemetry for a session or a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.errors import UsageError
from toolcrib.extras import install_command
from toolcrib.session.bus import EventBus
from toolcrib.telemetry.conventions import is_content_wanted

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from toolcrib.session.session import Session
    from toolcrib.telemetry.instrumentation import Instrumentation


def instrument(
    source: Session | EventBus,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    capture_content: bool | None = None,
) -> Instrumentation:
    """Make spans and metrics of a session, or of every session on a bus, from now on.

    Without providers, the application's global ones are used. Arguments, results and texts are
    left out unless `capture_content` or OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks
    for them. Raises `UsageError` when the bus is instrumented already.
    """
    try:
        from toolcrib.telemetry.instrumentation import Instrumentation
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise UsageError(
            f"OpenTelemetry's API is not installed; run: {install_command('telemetry')}"
        ) from None
    return Instrumentation(
        source if isinstance(source, EventBus) else source.bus,
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        captures_content=is_content_wanted(capture_content),
    )
