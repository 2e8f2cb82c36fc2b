"""Spans and metrics through OpenTelemetry's API, and metrics for Prometheus. Both libraries are
imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

# Imported at once: a lazy name would be hidden by the module of the same name.
from toolcrib.telemetry.instrument import instrument

if TYPE_CHECKING:
    from toolcrib.telemetry.instrumentation import Instrumentation
    from toolcrib.telemetry.prometheus import PrometheusMetrics

__all__ = ["Instrumentation", "PrometheusMetrics", "instrument"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.telemetry.instrumentation": ("Instrumentation",),
            "toolcrib.telemetry.prometheus": ("PrometheusMetrics",),
        },
    )
