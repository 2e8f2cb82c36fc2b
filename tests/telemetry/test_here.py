"""Where spans belong: under what the application does, and over what a handler does."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import Any

import pytest
from opentelemetry.context import attach, get_current
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import get_current_span, set_span_in_context

from tests.telemetry.memory_collector import Collected, attributes
from toolcrib import (
    CallRequest,
    EventBus,
    Executor,
    Hooks,
    Session,
    ToolContext,
    tool,
)


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
    session = Session()
    collected.watch(session)

    @tool
    async def forget() -> None:
        """Forget."""
        attach(set_span_in_context(collected.tracer.start_span("forgotten")))

    before = get_current()
    await Executor(session, [forget]).call("forget")

    assert get_current() is before


async def test_a_call_that_is_closed_elsewhere_changes_nothing_there(
    collected: Collected,
) -> None:
    """R43: a coroutine may be closed in another context than the one it ran in; its span ends, and
    what is current where it is closed stays so.
    """
    session = Session()
    collected.watch(session)

    @tool
    async def forever() -> None:
        """Take forever."""
        await asyncio.Event().wait()

    with collected.tracer.start_as_current_span("there"):
        there = copy_context()
    work = Executor(session, [forever]).call("forever")
    there.run(work.send, None)
    with collected.tracer.start_as_current_span("here") as here:
        work.close()
        assert get_current_span() is here

    assert collected.tree()["there"] == ["execute_tool forever"]


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
