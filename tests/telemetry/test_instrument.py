"""Asking for telemetry, and what it costs not to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.context import get_current

from tests.adapters.openai.loopback_adapter import add, ask, bench
from tests.adapters.openai.nested_prompt import ANSWER, pay
from tests.adapters.openai.scripted_provider import call, response
from tests.calls.payments import Says
from tests.telemetry.memory_collector import Collected, attributes, labels
from toolcrib import (
    Approve,
    Caller,
    EventBus,
    Executor,
    RuntimeConfig,
    Session,
    create_runtime,
    telemetry,
    tool,
)
from toolcrib.adapters.openai import Governance
from toolcrib.errors import UsageError
from toolcrib.extras import install_command
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry
from toolcrib.ledger.record import events
from toolcrib.telemetry import Instrumentation, instrument

ROOT = Path(__file__).parents[2]


@tool
async def look() -> str:
    """Look."""
    return "all is well"


def run_python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    # Measured processes load the coverage tool, and that loads modules of its own.
    clean = {key: text for key, text in os.environ.items() if not key.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**clean, **environment},
    )
    return done.stdout.strip()


@pytest.mark.wire
def test_the_api_is_imported_when_it_is_asked_for() -> None:
    """R43: neither the package nor this part of it loads OpenTelemetry on import."""
    code = "import sys, toolcrib, toolcrib.telemetry; print('opentelemetry' in sys.modules)"

    assert run_python(code) == "False"


@pytest.mark.wire
def test_a_missing_api_says_what_to_install() -> None:
    """R43: the extra's name, not a traceback of ours."""
    code = """
import sys
sys.modules["opentelemetry"] = None
from toolcrib import Session
from toolcrib.telemetry import instrument
try:
    instrument(Session())
except ValueError as error:
    print(error)
"""

    assert run_python(code).endswith(f"run: {install_command('telemetry')}")


@pytest.mark.wire
def test_only_the_api_is_needed() -> None:
    """R43: without an SDK everything runs and nothing is made; the SDK is never loaded."""
    code = """
import asyncio, sys
from toolcrib import Executor, Session, tool
from toolcrib.telemetry import instrument
from opentelemetry.context import get_current

@tool
async def look() -> bool:
    "Look."
    return get_current() is outside

async def main():
    global outside
    session, outside = Session(), get_current()
    with instrument(session):
        outcome = await Executor(session, [look]).call("look")
    print(outcome.value, session.bus.failures, "opentelemetry.sdk" in sys.modules)

asyncio.run(main())
"""

    assert run_python(code, OTEL_PYTHON_CONTEXT="") == "True 0 False"


@pytest.mark.wire
def test_the_applications_own_sdk_is_found() -> None:
    """R43: without providers the global ones count, also when they are set afterwards."""
    code = """
import asyncio
from opentelemetry import metrics, trace
from tests.telemetry.memory_collector import Collected
from toolcrib import Executor, Session, tool
from toolcrib.telemetry import instrument

@tool
async def look() -> None:
    "Look."

async def main():
    session, collected = Session(), Collected()
    instrument(session)
    trace.set_tracer_provider(collected.tracers)
    metrics.set_meter_provider(collected.meters)
    await Executor(session, [look]).call("look")
    print(collected.names, sum(collected.counts("toolcrib.calls").values()))

asyncio.run(main())
"""

    assert run_python(code) == "['execute_tool look'] 1"


async def test_a_session_that_is_not_instrumented_pays_nothing() -> None:
    """R43: nobody hears its events, so most of them are not even built."""
    session = Session()
    assert not session.is_heard

    with Collected().watch(session):
        assert session.is_heard

    assert not session.is_heard


async def test_telemetry_ends_when_it_is_closed() -> None:
    """R43: afterwards there are neither spans nor subscribers."""
    collected, session = Collected(), Session()
    executor = Executor(session, [look])
    with collected.watch(session):
        await executor.call("look")

    await executor.call("look")

    assert len(collected.spans) == 1
    assert session.bus.subscribers == {}


async def test_closing_in_the_middle_leaves_nothing_open() -> None:
    """R43: a call that still runs ends its span and is no longer counted as running."""
    collected, session = Collected(), Session()
    watching = collected.watch(session)

    @tool
    async def stop() -> None:
        """Stop watching."""
        watching.close()

    outcome = await Executor(session, [stop]).call("stop")

    assert outcome.status == "completed"
    assert collected.names == ["execute_tool stop"]
    assert collected.counts("toolcrib.call.active") == {labels(tool="stop"): 0}
    assert collected.durations() == {}


async def test_the_span_of_a_call_names_who_asked() -> None:
    """The principal and its groups are on the span; the process itself has no name there."""
    session, collected = Session(), Collected()
    collected.watch(session.bus)
    executor = Executor(session, [look])
    await executor.call("look", caller=Caller("ann", groups=frozenset({"ops", "dev"})))
    await executor.call("look")

    asked, unasked = (attributes(span) for span in collected.spans)
    assert asked["toolcrib.principal"] == "ann"
    assert asked["toolcrib.principal.groups"] == "dev,ops"
    assert "toolcrib.principal" not in unasked


async def test_a_bus_is_instrumented_once() -> None:
    """R43: twice would count everything twice; it is refused until the first is closed."""
    bus, collected = EventBus(), Collected()
    first = collected.watch(Session(bus=bus))

    with pytest.raises(UsageError, match="instrumented already, for every session on it"):
        collected.watch(Session(bus=bus))
    first.close()

    assert isinstance(collected.watch(bus), Instrumentation)


async def test_every_session_of_a_runtime_can_be_instrumented() -> None:
    """R43: each session has a bus and an instrumentation of its own; their metrics are one."""
    collected, registry = Collected(), HostToolRegistry()
    await registry.register(
        HostToolDefinition(
            name="stock",
            description="How many there are.",
            parameters={"type": "object"},
            handler=lambda given, context: 7,
        )
    )

    def watch(session: Session) -> None:
        collected.watch(session)

    config = RuntimeConfig(host_tool_registry=registry, on_session=watch)
    async with create_runtime(config) as runtime:
        for _ in range(2):
            session = await runtime.ask("session.create", {})
            await runtime.ask("tools.call", {"session_id": session.session_id, "name": "stock"})

    assert collected.names == ["execute_tool stock"] * 2
    assert collected.counts("toolcrib.calls") == {labels(tool="stock"): 2}


async def test_what_fails_in_telemetry_fails_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R43: a provider of the application's that raises is logged; the call is not touched."""
    collected, session = Collected(), Session()

    class Broken:
        """A tracer provider that cannot start spans."""

        def get_tracer(self, *_: object, **__: object) -> object:
            return self

    broken: Any = Broken()
    instrument(session, tracer_provider=broken, meter_provider=collected.meters)

    outcome = await Executor(session, [look]).call("look")

    assert outcome.text == "all is well"
    assert session.bus.failures == 1
    assert "a subscriber failed on call.started" in caplog.text
    assert collected.counts("toolcrib.calls") == {labels(tool="look"): 1}


async def test_no_subscriber_fails_on_the_way_of_a_whole_prompt() -> None:
    """R43: spans of every kind are made without one error on the bus."""
    collected, session = Collected(), Session()
    collected.watch(session, capture_content=True)
    before = get_current()
    both = response(call("pay"), call("add", {"a": 1, "b": 2}, "call_2"))

    with bench(both, ANSWER) as (adapter, _):
        await adapter.evaluate_async(ask(pay, add), session=session)
        await session.approvals.decide("call_1", Approve(), by="jo")
        await adapter.resume_async(ask(pay, add), session=session)

    assert session.bus.failures == 0
    assert get_current() is before
    kinds = {attributes(span).get("gen_ai.operation.name") for span in collected.spans}
    assert kinds >= {"execute_tool", "chat"}


def test_events_that_are_told_again_elsewhere_break_nothing() -> None:
    """R43: a ledger that is replayed on a bus, outside of any turn, call or loop, makes the spans
    that can be made of it and keeps none open.
    """
    session, bus, collected = Session(), EventBus(), Collected()
    with bench(response(call("pay")), ANSWER) as (adapter, _):
        governance = Governance(approver=Says(Approve()))
        adapter.evaluate(ask(pay), session=session, governance=governance)
    watching = collected.watch(bus)

    for event in events(session.records()):
        bus.publish(event)

    assert bus.failures == 0
    watching.close()
    told = ["chat test-model", "toolcrib.approval.wait", "execute_tool pay", "chat test-model"]
    assert collected.names == told


def test_sessions_in_several_threads_share_a_bus() -> None:
    """R43: one instrumentation may hear many threads; nothing is mixed up or lost."""
    bus, collected = EventBus(), Collected()
    collected.watch(bus)

    def work(number: int) -> None:
        async def run() -> None:
            executor = Executor(Session(f"s{number}", bus=bus), [look])
            for each in range(20):
                await executor.call("look", call_id=f"same_{each}")

        asyncio.run(run())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert bus.failures == 0
    told = [attributes(span)["gen_ai.conversation.id"] for span in collected.spans]
    assert sorted(told) == sorted(f"s{number}" for number in range(4) for _ in range(20))
    assert collected.counts("toolcrib.call.active") == {labels(tool="look"): 0}


def test_the_package_lists_what_it_has() -> None:
    """The public names are there, and a misspelt one is an attribute error."""
    assert dir(telemetry) == ["Instrumentation", "PrometheusMetrics", "instrument"]
    with pytest.raises(AttributeError, match="no attribute 'Instrument'"):
        getattr(telemetry, "Instrument")  # noqa: B009
