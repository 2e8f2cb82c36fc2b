"""OTLP by the standard variables: a real collector on loopback gets spans and metrics."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from gzip import decompress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.helpers.child_process import PYTHON_PATH
from tests.helpers.patience import PATIENCE
from toolcrib.extras import install_command
from toolcrib.session.bus import EventBus
from toolcrib.telemetry import otlp
from toolcrib.telemetry.otlp import exporters_of, start_export

PROGRAM = Path(__file__).parent / "otlp_process.py"
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@dataclass
class Collector:
    """What came in at `/v1/traces` and `/v1/metrics`."""

    url: str = ""
    traces: list[Any] = field(default_factory=list[Any])
    metrics: list[Any] = field(default_factory=list[Any])
    headers: list[str | None] = field(default_factory=list["str | None"])

    def spans(self) -> dict[str, Any]:
        return {
            span.name: span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def metric_names(self) -> set[str]:
        return {
            metric.name
            for request in self.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def services(self) -> set[str]:
        return {
            attribute.value.string_value
            for request in self.traces
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }


@contextmanager
def collector() -> Generator[Collector]:
    """An OTLP receiver over HTTP that decodes protobuf, as collectors do."""
    got = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = decompress(body)
            assert self.headers["Content-Type"] == "application/x-protobuf"
            got.headers.append(self.headers.get("x-team"))
            if self.path == "/v1/traces":
                got.traces.append(ExportTraceServiceRequest.FromString(body))
            else:
                assert self.path == "/v1/metrics"
                got.metrics.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    got.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def run(**variables: str) -> tuple[str, str]:
    """Run the program with these variables; what it printed, and what it logged."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        PROGRAM,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**own, "PYTHONPATH": PYTHON_PATH, **variables},
    )
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, err.decode()
    return out.decode().strip(), err.decode()


@pytest.mark.wire
async def test_an_endpoint_is_enough() -> None:
    """Spans and metrics of every session go out, those of the tools themselves too, with the
    headers of the environment; nothing of an argument does.
    """
    with collector() as got:
        said, _ = await run(
            OTEL_EXPORTER_OTLP_ENDPOINT=got.url, OTEL_EXPORTER_OTLP_HEADERS="x-team=ops"
        )

    assert said == "exporting"
    spans = got.spans()
    assert set(spans) == {"execute_tool look", "execute_tool broken", "SELECT shelf"}
    assert spans["SELECT shelf"].parent_span_id == spans["execute_tool look"].span_id
    assert {"gen_ai.execute_tool.duration", "toolcrib.calls"} <= got.metric_names()
    assert got.services() == {"toolcrib"}
    assert set(got.headers) == {"ops"}
    assert "hunter2" not in str(got.traces)


@pytest.mark.wire
async def test_signals_are_chosen_by_their_own_variables() -> None:
    """Only spans, under another name of the service."""
    with collector() as got:
        await run(
            OTEL_EXPORTER_OTLP_ENDPOINT=got.url,
            OTEL_METRICS_EXPORTER="none",
            OTEL_SERVICE_NAME="crib-7",
        )

    assert got.services() == {"crib-7"}
    assert got.metrics == []


@pytest.mark.wire
async def test_a_disabled_sdk_is_silent() -> None:
    """OTEL_SDK_DISABLED wins over every other variable."""
    with collector() as got:
        said, logged = await run(OTEL_EXPORTER_OTLP_ENDPOINT=got.url, OTEL_SDK_DISABLED="true")

    assert (said, logged) == ("silent", "")
    assert got.traces == got.metrics == []


@pytest.mark.wire
async def test_the_console_is_stderr() -> None:
    """Stdout may be a protocol."""
    said, logged = await run(OTEL_TRACES_EXPORTER="console")

    assert said == "exporting"
    assert '"execute_tool look"' in logged


@pytest.mark.parametrize(
    ("environ", "traces", "metrics"),
    [
        ({}, (), ()),
        (ENDPOINT, ("otlp",), ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a.example"}, ("otlp",), ()),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, (), ("otlp",)),
        ({"OTEL_TRACES_EXPORTER": "otlp, console"}, ("otlp", "console"), ()),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, (), ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, (), ()),
    ],
)
def test_what_the_variables_mean(
    environ: dict[str, str], traces: tuple[str, ...], metrics: tuple[str, ...]
) -> None:
    """Nothing is exported that no variable asks for."""
    assert exporters_of("traces", environ) == traces
    assert exporters_of("metrics", environ) == metrics


def test_without_the_package_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server starts all the same, and the line says what to install."""

    def nothing(name: str) -> None:
        """Nothing is installed."""

    monkeypatch.setattr(otlp, "find_spec", nothing)
    bus = EventBus()

    assert start_export(bus, ENDPOINT) is None
    (record,) = caplog.records
    assert install_command("otlp") in record.getMessage()
    assert bus.subscribers == {}


@pytest.mark.wire
@pytest.mark.parametrize(
    ("variables", "warning"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "set OTEL_TRACES_EXPORTER to otlp"),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "set OTEL_EXPORTER_OTLP_PROTOCOL"),
    ],
)
async def test_what_is_not_supported_is_told(variables: dict[str, str], warning: str) -> None:
    """And nothing is sent in another way than the one that was asked for."""
    _, logged = await run(**variables)

    assert warning in logged
