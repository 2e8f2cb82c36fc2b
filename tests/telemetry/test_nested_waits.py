"""Calls that wait within others: their handlers are not slow."""

from __future__ import annotations

import asyncio

import pytest

from tests.calls.payments import JO
from tests.telemetry.memory_collector import Collected, labels, seconds
from toolcrib import (
    Approve,
    Executor,
    Reply,
    Session,
    ToolContext,
    tool,
)
from toolcrib.approval.decision import ApprovalRequest, Decision
from toolcrib.testing import FakeClock

WAIT = "toolcrib.approval.wait"


@pytest.fixture
def collected() -> Collected:
    return Collected()


class Slow:
    """Somebody who takes ten seconds."""

    def __init__(self, clock: FakeClock, decision: Decision) -> None:
        self._clock = clock
        self._decision = decision

    async def ask(self, request: ApprovalRequest) -> Reply:
        self._clock.advance(10.0)
        return Reply(self._decision, JO)


async def test_the_time_of_a_nested_wait_is_not_the_outer_tools(collected: Collected) -> None:
    """R43: a handler whose calls wait for people is not slow: the histogram leaves that time out,
    once, however many of its calls wait at the same time.
    """
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        clock.advance(1.0)
        return "paid"

    @tool(uses=("pay",))
    async def settle(ctx: ToolContext) -> str:
        """Settle."""
        clock.advance(2.0)
        return (await ctx.call_tool("pay", {})).text

    @tool(uses=("settle",))
    async def close(ctx: ToolContext) -> str:
        """Close the books."""
        return (await ctx.call_tool("settle", {})).text

    executor = Executor(session, [pay, settle, close], approver=Slow(clock, Approve()))
    await executor.call("close")

    assert collected.tree() == {
        "": ["execute_tool close"],
        "execute_tool close": ["execute_tool settle"],
        "execute_tool settle": [WAIT, "execute_tool pay"],
    }
    assert collected.durations() == {
        labels(tool="pay"): [1, 1.0],
        labels(tool="settle"): [1, 3.0],
        labels(tool="close"): [1, 3.0],
    }
    assert seconds(collected.span("execute_tool close"))[1] == 13.0


async def test_waits_at_the_same_time_count_once(collected: Collected) -> None:
    """R43: two nested calls that wait together hold their handler up for one such time."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    @tool(uses=("pay",))
    async def settle(ctx: ToolContext) -> None:
        """Settle."""
        await asyncio.gather(ctx.call_tool("pay", {}), ctx.call_tool("pay", {}))
        clock.advance(2.0)

    class Together:
        """Answers when both were asked."""

        def __init__(self) -> None:
            self.both = asyncio.Barrier(2)

        async def ask(self, request: ApprovalRequest) -> Reply:
            # The second is asked when the first has waited for a while.
            clock.advance(5.0)
            await self.both.wait()
            return Reply(Approve(), JO)

    await Executor(session, [pay, settle], approver=Together()).call("settle")

    assert sorted(seconds(wait)[1] for wait in collected.all(WAIT)) == [5.0, 10.0]
    assert collected.durations()[labels(tool="settle")] == [1, 2.0]


async def test_a_nested_wait_that_is_given_up_ends_then(collected: Collected) -> None:
    """R43: a call that ends undecided waits no more: what its handler does afterwards counts."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)
    asked = asyncio.Event()

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    @tool(uses=("pay",))
    async def settle(ctx: ToolContext) -> None:
        """Settle, or not."""
        paying = asyncio.create_task(ctx.call_tool("pay", {}))
        await asked.wait()
        clock.advance(10.0)
        paying.cancel()
        await asyncio.gather(paying, return_exceptions=True)
        clock.advance(2.0)

    class Silent:
        """Never answers."""

        async def ask(self, request: ApprovalRequest) -> None:
            asked.set()
            await asyncio.Event().wait()

    await Executor(session, [pay, settle], approver=Silent()).call("settle")

    assert collected.durations() == {labels(tool="settle"): [1, 2.0]}
