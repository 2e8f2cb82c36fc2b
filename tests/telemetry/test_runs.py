"""Spans of calls that run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry.context import Context, get_current
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanKind
from opentelemetry.trace.span import TraceState
from opentelemetry.util.types import Attributes

from tests.calls.payments import Desk, Says
from tests.helpers.patience import PATIENCE
from tests.telemetry.memory_collector import Collected, attributes, is_failed, seconds
from toolcrib import (
    ApprovalRequired,
    Approve,
    CallRequest,
    Deny,
    Executor,
    NewGrant,
    Session,
    ToolContext,
    tool,
)
from toolcrib.errors import ResultDeferred
from toolcrib.testing import FakeClock, run_in_virtual_time


@pytest.fixture
def collected() -> Collected:
    return Collected()


@tool
async def look(part: str) -> str:
    """Look up where a part is kept."""
    return f"{part}: drawer 3"


@tool
async def spoil() -> str:
    """Fail."""
    raise LookupError("no such part")


async def test_a_call_is_a_span_with_all_its_attributes(collected: Collected) -> None:
    """R43: name, kind, status and every attribute, and nothing else."""
    session = Session("s1")
    collected.watch(session)

    await Executor(session, [look]).call("look", {"part": "bolt"}, call_id="c1")

    (span,) = collected.spans
    assert (span.name, span.kind, is_failed(span)) == (
        "execute_tool look",
        SpanKind.INTERNAL,
        False,
    )
    assert attributes(span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.conversation.id": "s1",
        "toolcrib.tool.source": "python",
        "toolcrib.tool.place": "local",
        "toolcrib.call.outcome": "completed",
    }
    scope = span.instrumentation_scope
    assert scope is not None
    assert scope.name == "toolcrib"


class Choosy(Sampler):
    """Takes what it is asked about, and remembers by what it could go."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Any = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        self.seen.append({"name": name, "kind": kind, **(attributes or {})})
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)

    def get_description(self) -> str:
        return "choosy"


async def test_samplers_can_go_by_what_is_known_at_the_start() -> None:
    """R43: operation, tool, type, call and conversation are there when a span starts."""
    sampler = Choosy()
    session = Session("s1")
    Collected(sampler).watch(session)

    await Executor(session, [look]).call("look", {"part": "bolt"}, call_id="c1")

    (seen,) = sampler.seen
    assert seen["name"] == "execute_tool look"
    assert seen["gen_ai.operation.name"] == "execute_tool"
    assert seen["gen_ai.tool.name"] == "look"
    assert seen["gen_ai.tool.type"] == "function"
    assert seen["gen_ai.tool.call.id"] == "c1"
    assert seen["gen_ai.conversation.id"] == "s1"


async def test_times_are_those_of_the_events(collected: Collected) -> None:
    """R43: a span begins with the handler and ends with the call, on the session's clock."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)

    @tool
    async def work() -> None:
        """Work."""
        clock.advance(2.5)

    await Executor(session, [work]).call("work")

    assert seconds(collected.span("execute_tool work")) == (1_000.0, 2.5)


async def test_waiting_for_a_free_place_is_not_part_of_the_run(collected: Collected) -> None:
    """R43: a call of a tool that runs one at a time begins when it is its turn."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)

    @tool(one_at_a_time=True)
    async def work() -> None:
        """Work."""
        await asyncio.sleep(0)
        clock.advance(2.0)

    await Executor(session, [work]).call_many([CallRequest("work"), CallRequest("work")])

    assert [seconds(span) for span in collected.spans] == [(1_000.0, 2.0), (1_002.0, 2.0)]


async def test_a_failed_call_says_why_in_one_word(collected: Collected) -> None:
    """R43: `error.type` is our kind of failure; the message is content and is left out."""
    session = Session()
    collected.watch(session)

    await Executor(session, [spoil]).call("spoil")

    (span,) = collected.spans
    assert is_failed(span)
    assert span.status.description is None
    assert attributes(span)["error.type"] == "tool_error"
    assert attributes(span)["toolcrib.call.exception"] == "LookupError"
    assert attributes(span)["toolcrib.call.outcome"] == "failed"
    assert span.events == ()


def test_a_call_that_is_out_of_time_is_told_apart(collected: Collected) -> None:
    """R43: a handler that could not be stopped is still running, and the span says so."""
    session = Session()
    collected.watch(session)
    stopped = threading.Event()

    @tool(timeout=1)
    def block() -> None:
        """Block."""
        stopped.wait(PATIENCE)

    async def work() -> None:
        await Executor(session, [block]).call("block")
        stopped.set()

    run_in_virtual_time(work())

    told = attributes(collected.span("execute_tool block"))
    assert told["error.type"] == "timeout"
    assert told["toolcrib.call.still_running"] is True


async def test_a_cancelled_call_has_its_span(collected: Collected) -> None:
    """R43: a call that is torn down from outside ends its span and leaves nothing current."""
    session = Session()
    collected.watch(session)
    began = asyncio.Event()

    @tool
    async def forever() -> None:
        """Take forever."""
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Executor(session, [forever]).call("forever"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert attributes(collected.span("execute_tool forever"))["error.type"] == "cancelled"


@pytest.mark.parametrize(
    ("name", "arguments"), [("look", {"part": 7}), ("nonsense", {}), ("look", "{")]
)
async def test_a_call_that_never_ran_has_no_span(
    collected: Collected, name: str, arguments: Any
) -> None:
    """R43: what is refused before the handler took no time of the tool's."""
    session = Session()
    collected.watch(session)

    outcome = await Executor(session, [look]).call(name, arguments)

    assert outcome.status == "failed"
    assert collected.spans == []


def asking_tool(clock: FakeClock) -> Any:
    @tool
    async def pay(ctx: ToolContext, amount: int) -> str:
        """Pay; much only with a yes."""
        clock.advance(1.0)
        if amount > 10 and not ctx.tool_call_approved:
            raise ApprovalRequired({"why": "much"})
        return "paid"

    return pay


class Slow(Says):
    """Takes its time."""

    def __init__(self, clock: FakeClock, decision: Approve | Deny) -> None:
        super().__init__(decision)
        self._clock = clock

    async def ask(self, request: Any) -> Any:
        self._clock.advance(100.0)
        return await super().ask(request)


async def test_a_handler_that_asks_runs_twice_and_waits_between(collected: Collected) -> None:
    """R43: neither run holds the time that somebody took to answer."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)
    executor = Executor(session, [asking_tool(clock)], approver=Slow(clock, Approve()))

    await executor.call("pay", {"amount": 20})

    assert [(span.name, seconds(span)) for span in collected.spans] == [
        ("execute_tool pay", (1_000.0, 1.0)),
        ("toolcrib.approval.wait", (1_001.0, 100.0)),
        ("execute_tool pay", (1_101.0, 1.0)),
    ]
    first, _, second = (attributes(span) for span in collected.spans)
    assert first["toolcrib.call.outcome"] == "waiting"
    assert second["toolcrib.call.outcome"] == "completed"
    assert second["toolcrib.call.attempt"] == 2
    assert second["toolcrib.call.decided_by"] == "person"
    assert list(collected.tree()) == [""]


async def test_a_handler_that_asks_and_is_denied_ran_once(collected: Collected) -> None:
    """R43: the run before the question was no failure, and there is none after it."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)
    executor = Executor(session, [asking_tool(clock)], approver=Slow(clock, Deny("no")))

    await executor.call("pay", {"amount": 20})

    assert collected.names == ["execute_tool pay", "toolcrib.approval.wait"]
    assert not is_failed(collected.span("execute_tool pay"))


async def test_a_grant_answers_a_handler_at_once(collected: Collected) -> None:
    """R43: with a standing yes there are two runs and nobody waits."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    grant = NewGrant(scope="session")
    says = Says(Approve(), grant)
    executor = Executor(session, [asking_tool(clock)], approver=says)
    await executor.call("pay", {"amount": 20})
    collected.watch(session)

    await executor.call("pay", {"amount": 20})

    assert [seconds(span)[1] for span in collected.all("execute_tool pay")] == [1.0, 1.0]
    assert collected.names == ["execute_tool pay"] * 2
    assert get_current() == Context()


async def test_a_rule_that_lets_a_call_run_is_told_by_kind(collected: Collected) -> None:
    """R43: who decided is told by kind alone; names may be people's."""
    desk = Desk(approver=Says(Approve()), requires_approval=True)
    collected.watch(desk.session)

    await desk.call()

    assert attributes(collected.span("execute_tool pay"))["toolcrib.call.decided_by"] == "person"
    assert '"jo"' not in collected.everything()


async def test_a_call_that_is_handed_over_ends_its_span(collected: Collected) -> None:
    """F16: what ran here is over; the result may come in days and is no failure."""

    @tool
    async def ship() -> str:
        """Ship a parcel."""
        raise ResultDeferred

    session = Session("s1")
    collected.watch(session)
    executor = Executor(session, [ship])
    await executor.call("ship", call_id="c1")

    (span,) = collected.spans
    assert (span.name, is_failed(span)) == ("execute_tool ship", False)
    assert attributes(span)["toolcrib.call.outcome"] == "waiting"
    await executor.complete("c1", "delivered")
    assert len(collected.spans) == 1
