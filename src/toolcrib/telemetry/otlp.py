"""Export of spans and metrics as the standard `OTEL_*` variables say, for commands that host a
runtime.

`OTEL_EXPORTER_OTLP_ENDPOINT` is enough. The SDK and its exporters read most variables themselves;
here it is decided whether anything is exported, and by which exporters.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

from toolcrib._version import __version__
from toolcrib.extras import install_command
from toolcrib.telemetry.instrument import instrument

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from toolcrib.session.bus import EventBus

_log = logging.getLogger(__name__)

Signal = Literal["traces", "metrics"]

_SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics")
_PREFIX: Final = "OTEL_EXPORTER_OTLP"
_FLUSH_MILLISECONDS: Final = 3_000


def exporters_of(signal: Signal, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the exporters of a signal; none unless a variable asks for one."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    named = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "")
    names = tuple(name.strip() for name in named.split(",") if name.strip())
    if names:
        return tuple(name for name in names if name != "none")
    endpoints = (f"{_PREFIX}_ENDPOINT", f"{_PREFIX}_{signal.upper()}_ENDPOINT")
    return ("otlp",) if any(environ.get(name, "").strip() for name in endpoints) else ()


class Export:
    """Exports what happens on a bus, until it is closed."""

    def __init__(self, bus: EventBus, closers: list[Callable[[], object]]) -> None:
        self._closers = closers
        self._instrumentation = instrument(bus)

    def close(self) -> None:
        """Send what is left, and stop. It may take some seconds when nobody answers."""
        self._instrumentation.close()
        for close in self._closers:
            try:
                close()
            except Exception as error:
                _log.warning("telemetry could not be sent in the end: %s", type(error).__name__)


def start_export(bus: EventBus, environ: Mapping[str, str] | None = None) -> Export | None:
    """Export the sessions of a bus as the environment says; None when it says nothing. What is
    missing or not supported is a warning: a server without telemetry is better than none.

    Where the process has an SDK already, as under `opentelemetry-instrument`, that one is used.
    """
    environ = os.environ if environ is None else environ
    wanted = {signal: exporters_of(signal, environ) for signal in _SIGNALS}
    if not any(wanted.values()):
        return None
    missing = _missing("otlp" in (*wanted["traces"], *wanted["metrics"]))
    if missing:
        hint = install_command("otlp")
        _log.warning("telemetry is not exported: %s is not installed; run: %s", missing, hint)
        return None
    closers = [*_set_up_traces(wanted["traces"], environ)]
    closers += _set_up_metrics(wanted["metrics"], environ)
    return Export(bus, closers)


def _missing(needs_otlp: bool) -> str | None:
    modules = ["opentelemetry.sdk"]
    if needs_otlp:
        modules.append("opentelemetry.exporter.otlp.proto.http")
    for module in modules:
        try:
            is_missing = find_spec(module) is None
        except ModuleNotFoundError:
            is_missing = True
        if is_missing:
            return module
    return None


def _set_up_traces(
    names: tuple[str, ...], environ: Mapping[str, str]
) -> list[Callable[[], object]]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    from opentelemetry.trace import get_tracer_provider, set_tracer_provider

    if isinstance(get_tracer_provider(), TracerProvider):
        return []
    exporters: list[Any] = []
    for name in names:
        if name == "otlp" and _speaks_http("traces", environ):
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporters.append(OTLPSpanExporter())
        elif name == "console":
            exporters.append(ConsoleSpanExporter(out=sys.stderr))
        elif name != "otlp":
            _warn_of(name, "traces")
    if not exporters:
        return []
    provider = TracerProvider(resource=_resource(environ), shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    set_tracer_provider(provider)
    return [lambda: provider.force_flush(_FLUSH_MILLISECONDS), provider.shutdown]


def _set_up_metrics(
    names: tuple[str, ...], environ: Mapping[str, str]
) -> list[Callable[[], object]]:
    from opentelemetry.metrics import get_meter_provider, set_meter_provider
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import (
        ConsoleMetricExporter,
        PeriodicExportingMetricReader,
    )

    if isinstance(get_meter_provider(), MeterProvider):
        return []
    exporters: list[Any] = []
    for name in names:
        if name == "otlp" and _speaks_http("metrics", environ):
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            exporters.append(OTLPMetricExporter())
        elif name == "console":
            exporters.append(ConsoleMetricExporter(out=sys.stderr))
        elif name != "otlp":
            _warn_of(name, "metrics")
    if not exporters:
        return []
    readers = [PeriodicExportingMetricReader(exporter) for exporter in exporters]
    provider = MeterProvider(readers, resource=_resource(environ), shutdown_on_exit=False)
    set_meter_provider(provider)
    # Shutting down collects once more, so what happened last is in it.
    return [lambda: provider.shutdown(_FLUSH_MILLISECONDS)]


def _speaks_http(signal: Signal, environ: Mapping[str, str]) -> bool:
    names = (f"{_PREFIX}_{signal.upper()}_PROTOCOL", f"{_PREFIX}_PROTOCOL")
    protocol = next((environ[name] for name in names if environ.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        _log.warning(
            "%s are not exported: the protocol %.40r is not supported; set %s_PROTOCOL to "
            "http/protobuf",
            signal,
            protocol,
            _PREFIX,
        )
    return protocol == "http/protobuf"


def _warn_of(name: str, signal: Signal) -> None:
    _log.warning(
        "%s are not exported by %.40r: it is not supported; set OTEL_%s_EXPORTER to otlp, console "
        "or none",
        signal,
        name,
        signal.upper(),
    )


def _resource(environ: Mapping[str, str]) -> Resource:
    from opentelemetry.sdk.resources import Resource

    is_named = "OTEL_SERVICE_NAME" in environ or "service.name=" in environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    own = {} if is_named else {"service.name": "toolcrib", "service.version": __version__}
    return Resource.create(own)
