"""`/metrics`: what is counted, who may read it, and how few series there can be."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import (
    CALLERS,
    OWNERS,
    READERS,
    TOKENS,
    Served,
    served,
)
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.prompt_events import HistoryCompacted, ModelResponded, TurnEnded
from toolcrib.mcp_client.config import server_from
from toolcrib.prices.cost import Cost, CostPart
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.access import create_access
from toolcrib.serving.health import Readiness
from toolcrib.serving.metrics import MetricsEndpoint, MetricsServer
from toolcrib.session.bus import EventBus
from toolcrib.telemetry import prometheus
from toolcrib.telemetry.prometheus import PrometheusMetrics
from toolcrib.tools.identity import ToolRef

DOCS = Path(__file__).parents[3] / "docs" / "operations.md"


def samples(text: str) -> dict[str, float]:
    """Every sample, by its name and labels as Prometheus writes them."""
    return {
        sample.name + "".join(f" {key}={sample.labels[key]}" for key in sorted(sample.labels)): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def call(crib: Served, tool: str, text: str = "hello", **more: Any) -> Any:
    return (
        await crib.client.post(
            f"/v1/sessions/s/tools/{tool}/call", json={"arguments": {"text": text}, **more}
        )
    ).json()


async def test_calls_approvals_and_requests_are_counted() -> None:
    """By tool, status and place; a tool that does not exist is `other`, whatever it is called."""
    async with served(metrics=PrometheusMetrics()) as crib:
        await crib.session()
        await call(crib, "echo")
        await call(crib, "broken")
        await call(crib, "made_up_by_a_model")
        waiting = await call(crib, "careful")
        before = samples((await crib.client.get("/metrics")).text)
        approval = waiting["approval_id"]
        await crib.client.post(f"/v1/approvals/{approval}/decide", json={"decision": "approve"})
        await call(crib, "careful", call_id=waiting["call_id"])
        after = samples((await crib.client.get("/metrics")).text)

    echo = "toolcrib_calls_total place=local status=completed tool=echo"
    assert {key for key in before if key.startswith("toolcrib_calls_total")} == {
        echo,
        "toolcrib_calls_total place=local status=tool_error tool=broken",
        "toolcrib_calls_total place=other status=not_found tool=other",
    }
    assert before[echo] == 1
    assert before["toolcrib_call_duration_seconds_count place=local tool=echo"] == 1
    assert before["toolcrib_approvals_waiting"] == 1
    assert before["toolcrib_approval_requests_total tool=careful"] == 1
    assert before["toolcrib_sessions_open"] == 1
    assert before["toolcrib_ready"] == 1
    route = "route=/v1/sessions/{session_id}/tools/{name}/call"
    assert before[f"toolcrib_http_requests_total method=POST {route} status=200"] == 4
    assert after["toolcrib_approvals_waiting"] == 0
    assert after["toolcrib_approval_decisions_total actor=person decision=approve"] == 1
    assert after["toolcrib_approval_wait_seconds_count"] == 1
    assert after["toolcrib_calls_total place=local status=completed tool=careful"] == 1


async def test_prompts_and_tokens_are_counted() -> None:
    """By model and kind of token, and by how a prompt ended."""
    metrics, bus = PrometheusMetrics(), EventBus()
    metrics.watch(bus)
    responded = ModelResponded(
        session_id="s",
        at=1.0,
        turn=1,
        step=1,
        status="completed",
        response_id=None,
        request_id=None,
        model="gpt-test",
        items=[],
        usage={"input_tokens": 30, "output_tokens": 4, "total_tokens": 34},
        cost=Cost((CostPart("tokens", "gpt-test", 34, 1_500_000_000),)),
    )
    bus.publish(responded)
    bus.publish(TurnEnded(session_id="s", at=2.0, turn=1, outcome="completed"))

    counted = samples(metrics.text().decode())
    assert counted["toolcrib_tokens_total kind=input model=gpt-test"] == 30
    assert counted["toolcrib_tokens_total kind=output model=gpt-test"] == 4
    assert counted["toolcrib_cost_dollars_total name=gpt-test what=model"] == 1.5
    assert counted["toolcrib_prompts_total outcome=completed"] == 1
    assert bus.failures == 0


@pytest.mark.parametrize(("method", "counts"), [("provider", 1), ("summary", 0)])
def test_a_compaction_of_the_provider_is_counted(method: Any, counts: int) -> None:
    """It is a paid request like any other; a summary is a prompt, whose requests are counted."""
    metrics, bus = PrometheusMetrics(), EventBus()
    metrics.watch(bus)
    compacted = HistoryCompacted(
        session_id="s",
        at=1.0,
        turn=1,
        adapter="openai",
        model="gpt-test",
        method=method,
        items=[],
        usage={"input_tokens": 30, "output_tokens": 4},
        cost=Cost((CostPart("tokens", "gpt-test", 34, 1_500_000_000),)),
    )
    bus.publish(compacted)

    counted = samples(metrics.text().decode())
    assert counted.get("toolcrib_tokens_total kind=input model=gpt-test", 0) == 30 * counts
    name = "toolcrib_cost_dollars_total name=gpt-test what=model"
    assert counted.get(name, 0) == 1.5 * counts
    assert bus.failures == 0


async def test_running_calls_are_shown() -> None:
    """R43: those whose handlers run now."""
    async with served(metrics=PrometheusMetrics()) as crib:
        running = asyncio.create_task(_call_held_back(crib))
        await asyncio.wait_for(crib.gates.entered.wait(), PATIENCE)
        between = samples((await crib.client.get("/metrics")).text)
        crib.gates.open.set()
        await running
        after = samples((await crib.client.get("/metrics")).text)

    assert (between["toolcrib_calls_active"], after["toolcrib_calls_active"]) == (1, 0)


async def test_a_mounted_server_that_is_away_is_shown() -> None:
    """While it has its first chance to connect, the server is not ready; after that it is."""
    away = server_from("away", {"command": "sleep", "args": ["600"]})
    async with served(metrics=PrometheusMetrics(), mcp_servers=[away]) as crib:
        before = samples((await crib.client.get("/metrics")).text)
        probe = await crib.client.get("/readyz")
        sessions = crib.runtime._sessions  # pyright: ignore[reportPrivateUsage]
        assert sessions is not None
        sessions.servers._ready_deadline = 0.0  # pyright: ignore[reportPrivateUsage]
        after = samples((await crib.client.get("/metrics")).text)

    assert (before["toolcrib_mounted_server_up server=away"], before["toolcrib_ready"]) == (0, 0)
    assert probe.status_code == 503
    assert (after["toolcrib_mounted_server_up server=away"], after["toolcrib_ready"]) == (0, 1)


async def _call_held_back(crib: Served) -> None:
    await crib.session()
    await call(crib, "held_back")


@pytest.mark.parametrize(
    ("token", "status"), [("", 401), (CALLERS, 403), (READERS, 200), (OWNERS, 200)]
)
async def test_auditors_and_admins_read_the_metrics(token: str, status: int) -> None:
    """Names of tools and amounts of work are not for everybody."""
    async with served(metrics=PrometheusMetrics()) as crib:
        headers = {"Authorization": f"Bearer {token}" if token else ""}
        answer = await crib.client.get("/metrics", headers=headers)

    assert answer.status_code == status
    assert ("toolcrib_ready" in answer.text) is (status == 200)


async def test_without_metrics_there_is_no_route_and_no_listener() -> None:
    """Nothing hears the events of a call when nobody wants to count it."""
    async with served() as crib:
        await crib.session()
        answer = await crib.client.get("/metrics")

        assert answer.status_code == 404
        assert crib.runtime.bus.subscribers == {}


async def test_refused_logins_are_counted() -> None:
    """By reason, so that guessing can raise an alarm."""
    async with served(metrics=PrometheusMetrics()) as crib:
        await crib.client.get("/v1/sessions", headers={"Authorization": "Bearer wrong-0123456789"})
        counted = samples((await crib.client.get("/metrics")).text)

    assert counted["toolcrib_login_failures_total reason=unknown"] == 1
    assert counted["toolcrib_http_requests_total method=GET route=/v1/sessions status=401"] == 1


def invoked(tool: str, principal: str | None = None) -> ToolInvoked:
    ref = ToolRef(name=tool, source="s", version="1", place="client", digest="d")
    return ToolInvoked(
        session_id="s",
        at=1.0,
        call_id="c",
        name=tool,
        params={},
        message="",
        success=True,
        tool=ref,
        principal=principal,
    )


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients name their own tools; beyond a number they share one series."""
    monkeypatch.setattr(prometheus, "MAX_TOOLS", 3)
    metrics, bus = PrometheusMetrics(), EventBus()
    metrics.watch(bus)
    for number in range(20):
        bus.publish(invoked(f"tool_{number}", "alice"))

    counted = samples(metrics.text().decode())
    calls = [key for key in counted if key.startswith("toolcrib_calls_total")]
    assert len(calls) == 4
    assert counted["toolcrib_calls_total place=client status=completed tool=other"] == 17
    assert "alice" not in "".join(calls)


def test_principals_are_labels_only_when_wanted() -> None:
    """Who called is in the ledger; a metric has it if the host says so."""
    metrics, bus = PrometheusMetrics(by_principal=True), EventBus()
    metrics.watch(bus)
    bus.publish(invoked("echo", "alice"))

    counted = samples(metrics.text().decode())
    key = "toolcrib_calls_total place=client principal=alice status=completed tool=echo"
    assert counted[key] == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 200), ({"Host": "rebound.example"}, 403), ({"Origin": "https://evil.example"}, 403)],
)
async def test_a_port_on_loopback_needs_no_token(headers: dict[str, str], status: int) -> None:
    """Whoever can connect there may read; a page in a browser may not."""
    runtime = create_runtime()
    async with runtime:
        readiness = Readiness(lambda: runtime.is_ready, runtime.store)
        endpoint = MetricsEndpoint(PrometheusMetrics(), runtime, readiness)
        access = create_access(None, {"tokens": TOKENS})
        async with (
            MetricsServer(endpoint, readiness, access, host="127.0.0.1", port=0) as server,
            httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
        ):
            answer = await client.get("/metrics", headers=headers)
            posted = await client.post("/metrics")
            elsewhere = await client.get("/v1/sessions")
            ready = await client.get("/readyz")

    assert answer.status_code == status
    assert (posted.status_code, elsewhere.status_code, ready.status_code) == (405, 404, 200)


async def test_a_port_that_others_reach_needs_a_token() -> None:
    """Anywhere but on loopback, the metrics are for auditors there too."""
    runtime = create_runtime()
    async with runtime:
        readiness = Readiness(lambda: runtime.is_ready, runtime.store)
        endpoint = MetricsEndpoint(PrometheusMetrics(), runtime, readiness)
        access = create_access(None, {"tokens": TOKENS})
        async with (
            MetricsServer(endpoint, readiness, access, host="0.0.0.0", port=0) as server,
            httpx2.AsyncClient(
                base_url=server.url.replace("0.0.0.0", "127.0.0.1"), timeout=PATIENCE
            ) as client,
        ):
            answers = [
                (await client.get("/metrics", headers={"Authorization": token})).status_code
                for token in ("", f"Bearer {CALLERS}", f"Bearer {READERS}")
            ]

    assert answers == [401, 403, 200]


def test_the_page_has_every_metric_and_no_other() -> None:
    """docs/operations.md tells each metric with its labels."""
    documented = dict(re.findall(r"^\| `(toolcrib_\w+)` \| (.*?) \|", DOCS.read_text(), re.M))
    described: dict[str, str] = {}
    for collector in PrometheusMetrics().registry._collector_to_names:  # pyright: ignore[reportPrivateUsage]
        if isinstance(collector, MetricWrapperBase):
            (family,) = collector.describe()
            labels: tuple[str, ...] = getattr(collector, "_labelnames", ())
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            described[family.name + suffix] = ", ".join(f"`{label}`" for label in labels) or "-"

    assert documented == {**described, "toolcrib_build_info": "`version`"}
