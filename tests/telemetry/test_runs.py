"""Spans of calls that run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry.context import Context, get_current
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, get_current_span
from opentelemetry.trace.span import TraceState
from opentelemetry.util.types import Attributes

from tests.calls.desk import Desk, Says
from tests.telemetry.collected import Collected, attributes, is_failed, seconds
from toolcrib import (
    ApprovalRequired,
    Approve,
    CallRequest,
    Deny,
    EventBus,
    Executor,
    Hooks,
    NewGrant,
    Session,
    ToolContext,
    tool,
)
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
        stopped.wait(30)

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


async def test_spans_join_the_trace_of_the_application(collected: Collected) -> None:
    """R43: a call is a child of what the application does where the call begins, and what the
    handler does is a child of the call.
    """
    session = Session()
    collected.watch(session)

    @tool
    async def fetch() -> None:
        """Fetch."""
        with collected.tracer.start_as_current_span("GET"):
            pass

    with collected.tracer.start_as_current_span("request"):
        await Executor(session, [fetch]).call("fetch")
        with collected.tracer.start_as_current_span("afterwards"):
            pass

    assert collected.tree() == {
        "": ["request"],
        "request": ["execute_tool fetch", "afterwards"],
        "execute_tool fetch": ["GET"],
    }


async def test_a_handler_in_a_thread_is_part_of_its_call(collected: Collected) -> None:
    """R43: also what a sync handler does comes under its call."""
    session = Session()
    collected.watch(session)

    @tool(timeout=10)
    def fetch() -> None:
        """Fetch."""
        with collected.tracer.start_as_current_span("GET"):
            pass

    await Executor(session, [fetch]).call("fetch")

    assert collected.tree()["execute_tool fetch"] == ["GET"]


@pytest.mark.parametrize("name", ["look", "spoil", "nonsense"])
async def test_nothing_is_left_behind_in_the_context(collected: Collected, name: str) -> None:
    """R43: after a call, whatever its end, the application's context is what it was."""
    session = Session()
    collected.watch(session)
    before = get_current()

    await Executor(session, [look, spoil]).call(name, {"part": "bolt"} if name == "look" else {})

    assert get_current() is before


async def test_a_handler_that_forgets_its_own_span_does_not_leave_it(collected: Collected) -> None:
    """R43: what a handler makes current and does not put back ends with its call."""
    from opentelemetry.context import attach
    from opentelemetry.trace import set_span_in_context

    session = Session()
    collected.watch(session)

    @tool
    async def forget() -> None:
        """Forget."""
        attach(set_span_in_context(collected.tracer.start_span("forgotten")))

    before = get_current()
    await Executor(session, [forget]).call("forget")

    assert get_current() is before


async def test_nested_calls_are_under_the_call_that_made_them(collected: Collected) -> None:
    """R43: calls of calls are nested, and spans of the handler are between them."""
    session = Session()
    collected.watch(session)

    @tool(uses=("look",))
    async def find(ctx: ToolContext) -> str:
        """Find."""
        with collected.tracer.start_as_current_span("inside"):
            return (await ctx.call_tool("look", {"part": "nut"})).text

    @tool(uses=("find",))
    async def plan(ctx: ToolContext) -> str:
        """Plan."""
        return (await ctx.call_tool("find", {})).text

    await Executor(session, [look, find, plan]).call("plan")

    assert collected.tree() == {
        "": ["execute_tool plan"],
        "execute_tool plan": ["execute_tool find"],
        "execute_tool find": ["inside"],
        "inside": ["execute_tool look"],
    }


async def test_parallel_calls_are_told_apart(collected: Collected) -> None:
    """R43: calls that run at the same time are siblings, each with what its handler does."""
    session = Session()
    collected.watch(session)
    together = asyncio.Barrier(3)

    @tool
    async def meet(name: str) -> str:
        """Meet."""
        await together.wait()
        with collected.tracer.start_as_current_span(f"met {name}") as span:
            await asyncio.sleep(0)
            assert get_current_span() is span
        return name

    requests = [CallRequest("meet", {"name": each}, call_id=each) for each in "abc"]
    with collected.tracer.start_as_current_span("request"):
        await Executor(session, [meet]).call_many(requests)

    assert collected.tree()["request"] == ["execute_tool meet"] * 3
    ids = {
        span.context.span_id: attributes(span)["gen_ai.tool.call.id"]
        for span in collected.all("execute_tool meet")
        if span.context is not None
    }
    parents = {
        each: span.parent.span_id
        for each in "abc"
        if (span := collected.span(f"met {each}")).parent is not None
    }
    assert {each: ids[parent] for each, parent in parents.items()} == {"a": "a", "b": "b", "c": "c"}


async def test_hooks_after_the_handler_are_part_of_the_call(collected: Collected) -> None:
    """R43: a span lasts to the end of the call; hooks before it are outside, as is deciding."""
    session = Session()
    collected.watch(session)

    async def before(ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        with collected.tracer.start_as_current_span("before"):
            return args

    async def after(ctx: ToolContext, result: Any) -> Any:
        with collected.tracer.start_as_current_span("after"):
            return result

    hooks = Hooks(pre={"look": before}, post={"look": after})
    await Executor(session, [look], hooks=hooks).call("look", {"part": "bolt"})

    assert collected.tree() == {
        "": ["before", "execute_tool look"],
        "execute_tool look": ["after"],
    }


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


async def test_a_span_that_is_not_sampled_still_leads_to_its_children() -> None:
    """R43: an application that samples nothing gets nothing, and its context is kept."""
    collected = Collected(ALWAYS_OFF)
    session = Session()
    collected.watch(session)
    inside: list[bool] = []

    @tool
    async def check() -> None:
        """Check."""
        inside.append(get_current_span().get_span_context().is_valid)

    await Executor(session, [check]).call("check")

    assert inside == [True]
    assert collected.spans == []
    assert not get_current_span().get_span_context().is_valid


async def test_calls_of_another_session_within_a_handler(collected: Collected) -> None:
    """R43: one bus for several sessions: a call that a handler makes elsewhere is under it."""
    bus = EventBus()
    first, second = Session("s1", bus=bus), Session("s2", bus=bus)
    collected.watch(bus)
    other = Executor(second, [look])

    @tool
    async def delegate() -> str:
        """Let somebody else look."""
        return (await other.call("look", {"part": "bolt"}, call_id="same")).text

    await Executor(first, [delegate]).call("delegate", call_id="same")

    assert collected.tree() == {
        "": ["execute_tool delegate"],
        "execute_tool delegate": ["execute_tool look"],
    }
    assert attributes(collected.span("execute_tool look"))["gen_ai.conversation.id"] == "s2"


async def test_a_rule_that_lets_a_call_run_is_told_by_kind(collected: Collected) -> None:
    """R43: who decided is told by kind alone; names may be people's."""
    desk = Desk(approver=Says(Approve()), requires_approval=True)
    collected.watch(desk.session)

    await desk.call()

    assert attributes(collected.span("execute_tool pay"))["toolcrib.call.decided_by"] == "person"
    assert '"jo"' not in collected.everything()
