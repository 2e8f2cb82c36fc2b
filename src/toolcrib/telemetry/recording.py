"""Whether anybody records: without an SDK there is nothing to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.metrics import get_meter_provider
from opentelemetry.trace import get_tracer_provider

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class Recording:
    """Finds out whether the providers record. Global ones may be set at any time, and stay."""

    def __init__(
        self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
    ) -> None:
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._is_on = False

    @property
    def is_on(self) -> bool:
        """True once there is an SDK, or something in its place."""
        if not self._is_on:
            self._is_on = _records(self._tracer_provider or get_tracer_provider()) or _records(
                self._meter_provider or get_meter_provider()
            )
        return self._is_on


def _records(provider: TracerProvider | MeterProvider) -> bool:
    """The API's own providers stand for those that are missing, and do nothing."""
    return not type(provider).__module__.startswith(
        ("opentelemetry.trace", "opentelemetry.metrics")
    )
