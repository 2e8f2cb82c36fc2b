"""Spans and metrics through OpenTelemetry's API, which is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.telemetry.instrument import instrument

if TYPE_CHECKING:
    from toolcrib.telemetry.instrumentation import Instrumentation

__all__ = ["Instrumentation", "instrument"]


if not TYPE_CHECKING:
    # Out of a type checker's sight, or it would take every misspelt name for Any.
    def __getattr__(name: str) -> object:
        if name != "Instrumentation":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from toolcrib.telemetry.instrumentation import Instrumentation

        return Instrumentation


def __dir__() -> list[str]:
    return sorted(__all__)
