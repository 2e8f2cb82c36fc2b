"""Spans and metrics through OpenTelemetry's API, which is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

# Imported at once: a lazy name would be hidden by the module of the same name.
from toolcrib.telemetry.instrument import instrument

if TYPE_CHECKING:
    from toolcrib.telemetry.instrumentation import Instrumentation

__all__ = ["Instrumentation", "instrument"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__, {"toolcrib.telemetry.instrumentation": ("Instrumentation",)}
    )
