"""What a command that hosts a runtime tells of itself: logs, telemetry and metrics."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from toolcrib.cli.output import logged_notes, require_extra, show_note

if TYPE_CHECKING:
    from toolcrib.logs import LogLevel
    from toolcrib.project.runtime import RuntimeOptions
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.listener import TlsFiles
    from toolcrib.telemetry.options import TelemetryOptions
    from toolcrib.telemetry.prometheus import PrometheusMetrics
    from toolcrib.transports.http.server import HttpServer


def telemetry_of(options: RuntimeOptions) -> TelemetryOptions:
    """What is exported. Raises `UsageError`."""
    from toolcrib.telemetry.options import TelemetryOptions

    return TelemetryOptions(
        otlp=options.otlp,
        metrics=options.metrics,
        metrics_listen=options.metrics_listen,
        metrics_by_principal=options.metrics_by_principal,
    )


@contextmanager
def written_logs(options: RuntimeOptions, level: LogLevel) -> Generator[None]:
    """Write the logs of this process to stderr until the block ends, from `level` on unless the
    options name another. With --debug tracebacks of tools are among them.
    """
    from toolcrib.cli.debug import is_debug, leave_to_log
    from toolcrib.logs import LogOptions, restored_logs, write_logs
    from toolcrib.telemetry.call_log import call_facts

    level = options.log_level or ("info" if is_debug() else level)
    chosen = LogOptions(level=level, format=options.log_format)
    # A collector of JSON lines would stumble over any other line.
    notes = logged_notes() if chosen.format == "json" else nullcontext()
    with restored_logs(), notes:
        write_logs(chosen, context=call_facts, all_tracebacks=is_debug())
        leave_to_log()
        yield


def log_runtime(runtime: Runtime) -> None:
    """Log the calls of a runtime that has not started."""
    from toolcrib.telemetry.call_log import log_calls

    log_calls(runtime.bus)


@asynccontextmanager
async def exported(runtime: Runtime, options: RuntimeOptions) -> AsyncGenerator[None]:
    """Export the telemetry of a runtime that has not started, as the environment says."""
    import asyncio

    from toolcrib.telemetry.otlp import start_export

    export = start_export(runtime.bus) if telemetry_of(options).otlp else None
    try:
        yield
    finally:
        if export is not None:
            await asyncio.to_thread(export.close)


def metrics_of(runtime: Runtime, options: RuntimeOptions) -> PrometheusMetrics | None:
    """The metrics of a runtime that has not started; None unless the options want them. Raises
    `UsageError`.
    """
    telemetry = telemetry_of(options)
    if not telemetry.has_metrics:
        return None
    require_extra("metrics", "--metrics")
    from prometheus_client import disable_created_metrics

    from toolcrib.telemetry.prometheus import PrometheusMetrics

    # Prometheus does not read the time of each series' creation in this format.
    disable_created_metrics()
    metrics = PrometheusMetrics(by_principal=telemetry.metrics_by_principal)
    metrics.watch(runtime.bus)
    if runtime.notifications is not None:
        runtime.notifications.on_outcome = metrics.notified
    return metrics


@asynccontextmanager
async def metrics_listener(
    server: HttpServer,
    runtime: Runtime,
    metrics: PrometheusMetrics | None,
    options: RuntimeOptions,
    tls: TlsFiles | None,
) -> AsyncGenerator[None]:
    """Serve the metrics on a port of their own too, if the options name one."""
    address = telemetry_of(options).metrics_address
    if address is None or metrics is None:
        yield
        return
    from toolcrib.serving.metrics import METRICS_PATH, MetricsEndpoint, MetricsServer

    endpoint = MetricsEndpoint(metrics, runtime, server.readiness)
    host, port = address
    own = MetricsServer(endpoint, server.readiness, server.access, host=host, port=port, tls=tls)
    async with own:
        show_note(f"metrics are on {own.url}{METRICS_PATH}")
        yield
