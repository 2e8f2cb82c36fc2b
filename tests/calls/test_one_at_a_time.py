"""Tools that run one at a time, and what waiting for them costs."""

import asyncio
from typing import Any

import pytest

from tests.calls.gauge import Gauge, requests
from tests.calls.runs import kinds
from toolcrib import CallRequest, Executor, Limits, Session, ToolContext, tool
from toolcrib.testing import run_in_virtual_time


class TestTurns:
    def test_a_tool_can_run_alone(self) -> None:
        """Calls of a tool that runs one at a time wait for each other, and for no other tool."""
        gauge, mixed = Gauge(), Gauge()

        async def scene() -> None:
            await Executor(Session(), gauge.tools).call_many(requests("alone"))
            await Executor(Session(), mixed.tools).call_many(
                [*requests("alone", 2), *requests("work", 1)]
            )

        run_in_virtual_time(scene())

        assert (gauge.most, mixed.most) == (1, 2)

    def test_the_queue_of_one_tool_leaves_slots_to_the_others(self) -> None:
        """Calls that wait for their tool hold no general slot."""
        gauge = Gauge()

        async def scene() -> float:
            executor = Executor(Session(), gauge.tools, limits=Limits(max_parallel=2))
            started_at = asyncio.get_running_loop().time()
            queue = asyncio.create_task(executor.call_many(requests("alone", 4)))
            await asyncio.sleep(0)
            await executor.call("work", {"number": 9})
            seconds = asyncio.get_running_loop().time() - started_at
            await queue
            return seconds

        assert run_in_virtual_time(scene()) < 2
        assert gauge.most == 2

    def test_a_slot_and_a_tool_are_never_waited_for_crosswise(self) -> None:
        """R48: a call in the only slot calls a tool that runs one at a time, while another call
        of that tool waits for the slot. Neither may wait for the other for ever.
        """

        @tool(uses=("alone",))
        async def outer(ctx: ToolContext) -> Any:
            """Call the busy tool."""
            await asyncio.sleep(1)
            return (await ctx.call_tool("alone", {"number": 7})).value

        async def scene() -> list[Any]:
            executor = Executor(Session(), [outer, *Gauge().tools], limits=Limits(max_parallel=1))
            async with asyncio.timeout(100):
                outcomes = await executor.call_many([CallRequest("outer"), *requests("alone", 2)])
            return [outcome.value for outcome in outcomes]

        assert run_in_virtual_time(scene()) == [7, 0, 1]

    def test_waiting_for_a_turn_costs_no_time_limit(self) -> None:
        """A call's limit begins when it starts, not when it queues."""

        @tool(one_at_a_time=True, timeout=5)
        async def slow() -> str:
            """Take four seconds."""
            await asyncio.sleep(4)
            return "done"

        executor = Executor(Session(), [slow])

        outcomes = run_in_virtual_time(executor.call_many([CallRequest("slow")] * 3))

        assert [outcome.value for outcome in outcomes] == ["done"] * 3

    def test_a_call_that_waits_for_its_turn_has_not_started(self) -> None:
        """A crash while a call queues must leave nothing in doubt."""
        session = Session()
        gauge = Gauge()
        executor = Executor(session, gauge.tools)

        async def scene() -> list[str]:
            batch = asyncio.create_task(executor.call_many(requests("alone", 3)))
            await asyncio.sleep(1)
            seen = kinds(session)
            await batch
            return seen

        assert run_in_virtual_time(scene()) == ["session.opened", "call.started"]

    @pytest.mark.parametrize("cap", [None, 4])
    def test_two_such_tools_do_not_wait_for_each_other(self, cap: int | None) -> None:
        """Each runs alone among its own calls only."""
        together = asyncio.Barrier(2)

        async def meet() -> str:
            """Meet the other one."""
            await together.wait()
            return "met"

        tools = [tool(name=name, one_at_a_time=True)(meet) for name in ("one", "two")]

        async def scene() -> list[str]:
            executor = Executor(Session(), tools, limits=Limits(max_parallel=cap))
            async with asyncio.timeout(100):
                batch = [CallRequest(name) for name in ("one", "two")] * 2
                return [outcome.text for outcome in await executor.call_many(batch)]

        assert run_in_virtual_time(scene()) == ["met"] * 4
