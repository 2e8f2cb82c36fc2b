"""What is counted and measured, for each tool."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import Histogram

from tests.calls.payments import Desk, Says
from tests.telemetry.memory_collector import Collected, labels
from toolcrib import (
    Answer,
    Approve,
    CallRequest,
    Deny,
    Executor,
    Policy,
    Rule,
    Session,
    tool,
)
from toolcrib.approval.decision import Decision
from toolcrib.testing import FakeClock, run_in_virtual_time


@pytest.fixture
def collected() -> Collected:
    return Collected()


@tool
async def look() -> str:
    """Look."""
    return "all is well"


@tool
async def spoil() -> str:
    """Fail."""
    raise LookupError("no such part")


async def test_calls_and_errors_are_counted_for_each_tool(collected: Collected) -> None:
    """R43: every call counts, whether or not anything ran; errors count by kind."""
    session = Session()
    collected.watch(session)
    executor = Executor(
        session, [look, spoil], policy=Policy((Rule("allow", "look"), Rule("deny", "spoil")))
    )
    free = Executor(session, [look, spoil])

    await executor.call("look")
    await executor.call("look")
    await executor.call("look", {"more": 1})
    await executor.call("spoil")
    await free.call("spoil")

    assert collected.counts("toolcrib.calls") == {labels(tool="look"): 3, labels(tool="spoil"): 2}
    assert collected.counts("toolcrib.call.errors") == {
        labels(tool="look", error="invalid_arguments"): 1,
        labels(tool="spoil", error="not_permitted"): 1,
        labels(tool="spoil", error="tool_error"): 1,
    }
    assert collected.counts("toolcrib.call.timeouts") == {}


async def test_names_that_a_model_invents_are_one(collected: Collected) -> None:
    """R43: whoever calls tools that do not exist cannot make a series for each."""
    session = Session()
    collected.watch(session)
    executor = Executor(session, [look])

    for number in range(20):
        await executor.call(f"nonsense_{number}")

    assert collected.counts("toolcrib.calls") == {labels(tool="_OTHER"): 20}
    assert collected.counts("toolcrib.call.errors") == {
        labels(tool="_OTHER", error="not_found"): 20
    }


async def test_the_histogram_is_the_conventions(collected: Collected) -> None:
    """R43: seconds in the conventions' buckets, failed runs apart by kind."""
    clock = FakeClock()
    session = Session(clock=clock)
    collected.watch(session)

    @tool
    async def work(seconds: float) -> None:
        """Work."""
        clock.advance(seconds)
        if seconds > 10:
            raise LookupError

    executor = Executor(session, [work])
    for seconds in (0.5, 1.5, 30.0):
        await executor.call("work", {"seconds": seconds})

    assert collected.durations() == {
        labels(tool="work"): [2, 2.0],
        labels(tool="work", error="tool_error"): [1, 30.0],
    }
    metric = collected.metric("gen_ai.execute_tool.duration")
    assert metric is not None
    assert metric.unit == "s"
    assert isinstance(metric.data, Histogram)
    bounds = list(metric.data.data_points[0].explicit_bounds)
    assert bounds == pytest.approx([0.01 * 2**power for power in range(14)])


async def test_what_never_ran_is_not_measured(collected: Collected) -> None:
    """R43: a refused call would make the tool look fast."""
    session = Session()
    collected.watch(session)

    await Executor(session, [look]).call("look", {"more": 1})

    assert collected.durations() == {}
    assert collected.counts("toolcrib.call.active") == {}


async def test_running_calls_go_up_and_down(collected: Collected) -> None:
    """R43: the number of calls that run now, whatever their end."""
    session = Session()
    collected.watch(session)
    go_on = asyncio.Event()
    running = asyncio.Barrier(4)

    @tool
    async def hold(fails: bool) -> None:
        """Hold."""
        await running.wait()
        await go_on.wait()
        if fails:
            raise LookupError

    executor = Executor(session, [hold])
    requests = [CallRequest("hold", {"fails": fails}) for fails in (True, False, True)]
    task = asyncio.create_task(executor.call_many(requests))
    await running.wait()
    assert collected.counts("toolcrib.call.active") == {labels(tool="hold"): 3}
    go_on.set()
    await task

    assert collected.counts("toolcrib.call.active") == {labels(tool="hold"): 0}


def test_timeouts_are_counted(collected: Collected) -> None:
    """R43: calls that were out of time, on their own and among the errors."""
    session = Session()
    collected.watch(session)

    @tool(timeout=1)
    async def sleep() -> None:
        """Sleep."""
        await asyncio.sleep(60)

    run_in_virtual_time(Executor(session, [sleep]).call("sleep"))

    assert collected.counts("toolcrib.call.timeouts") == {labels(tool="sleep"): 1}
    assert collected.counts("toolcrib.call.errors") == {labels(tool="sleep", error="timeout"): 1}


@pytest.mark.parametrize(
    ("decision", "kind"),
    [(Approve(), "approve"), (Deny(), "deny"), (Answer("paid"), "answer")],
)
async def test_approvals_are_counted_by_outcome(
    collected: Collected, decision: Decision, kind: str
) -> None:
    """R43: how often somebody was asked, and what was decided by what kind of actor."""
    desk = Desk(approver=Says(decision), requires_approval=True)
    collected.watch(desk.session)

    await desk.call()

    assert collected.counts("toolcrib.approval.requests") == {labels(tool="pay"): 1}
    decided = labels(tool="pay", decision=kind, actor="person")
    assert collected.counts("toolcrib.approval.decisions") == {decided: 1}


async def test_an_expired_question_is_an_outcome_of_its_own(collected: Collected) -> None:
    """R43: nobody denied it, and it is no error of the tool."""
    desk = Desk(Policy((Rule("ask", "pay", deadline_seconds=60),)))
    collected.watch(desk.session)
    await desk.call()
    desk.clock.advance(61)

    await desk.executor.resume()

    decided = labels(tool="pay", decision="expire", actor="timeout")
    assert collected.counts("toolcrib.approval.decisions") == {decided: 1}
    assert collected.counts("toolcrib.call.errors") == {labels(tool="pay", error="expired"): 1}


async def test_measurements_point_to_their_span(collected: Collected) -> None:
    """R43: an exemplar of the histogram leads from a slow call to its span."""
    session = Session()
    collected.watch(session)

    await Executor(session, [look]).call("look")

    metric = collected.metric("gen_ai.execute_tool.duration")
    span = collected.span("execute_tool look")
    assert metric is not None
    assert span.context is not None
    points: Any = metric.data.data_points
    (exemplar,) = points[0].exemplars
    assert exemplar.span_id == span.context.span_id
