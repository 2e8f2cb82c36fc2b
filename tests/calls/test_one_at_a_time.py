"""Tools that run one at a time, and what waiting for them costs."""

import asyncio
from typing import Any

import pytest

from tests.calls.concurrency_gauge import Gauge, requests
from tests.calls.runs import failure, invoked, kinds
from toolcrib import (
    CallRequest,
    Executor,
    Hooks,
    Limits,
    Outcome,
    Session,
    ToolContext,
    tool,
)
from toolcrib.errors import ToolTimeout
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


def busy(one_at_a_time: bool = True) -> Any:
    """A tool that takes an hour."""

    async def work() -> str:
        """Work."""
        await asyncio.sleep(3600)
        return "done"

    return tool(one_at_a_time=one_at_a_time)(work)


class TestDeadline:
    @pytest.mark.parametrize(
        ("is_alone", "limits"),
        [(True, None), (True, Limits(max_parallel=2)), (False, Limits(max_parallel=1))],
        ids=["tool", "tool and slot", "slot"],
    )
    def test_a_deadline_ends_the_wait(self, is_alone: bool, limits: Limits | None) -> None:
        """R18: `deadline=` is for the whole call; one that does not get its turn in time fails
        then, has not started, and post hooks see it like any timeout.
        """
        session = Session()
        seen: list[Any] = []

        async def post(ctx: Any, name: str, result: Any) -> Any:
            seen.append(result)
            return result

        async def scene() -> tuple[Outcome, float]:
            executor = Executor(
                session, [busy(is_alone)], limits=limits, hooks=Hooks(global_post=post)
            )
            first = asyncio.create_task(executor.call("work"))
            await asyncio.sleep(0)
            started_at = asyncio.get_running_loop().time()
            late = await executor.call("work", call_id="late", deadline=started_at + 5)
            waited = asyncio.get_running_loop().time() - started_at
            first.cancel()
            await asyncio.wait([first])
            return late, waited

        late, waited = run_in_virtual_time(scene())

        assert failure(late) == "timeout"
        assert "was not started" in late.text
        assert waited == pytest.approx(5, abs=0.5)
        assert isinstance(seen[0], ToolTimeout)
        assert kinds(session).count("call.started") == 1
        assert invoked(session)[0].duration_seconds == 0

    def test_who_gave_up_waiting_leaves_the_queue_in_order(self) -> None:
        """A call that left the queue neither blocks it nor runs later."""

        async def scene() -> list[Outcome]:
            executor = Executor(Session(), Gauge().tools)
            now = asyncio.get_running_loop().time()
            works = [
                executor.call("alone", {"number": number}, deadline=now + seconds)
                for number, seconds in enumerate([100, 1.5, 100])
            ]
            return await asyncio.gather(*works)

        outcomes = run_in_virtual_time(scene())

        assert [outcome.value for outcome in outcomes] == [0, None, 2]


class TestCircles:
    def circle(self, names: tuple[str, ...]) -> tuple[list[Any], dict[str, Outcome]]:
        """Tools that run one at a time; each calls the next once all of them run."""
        got: dict[str, Outcome] = {}
        together = asyncio.Barrier(len(names))

        def link(name: str, following: str) -> Any:
            async def call(ctx: ToolContext) -> str:
                """Call the next one."""
                if ctx.parent_call_id is not None:
                    return "alone"
                await together.wait()
                got[name] = await ctx.call_tool(following)
                return f"{name} is done"

            return tool(name=name, one_at_a_time=True, uses=(following,))(call)

        return [
            link(each, following)
            for each, following in zip(names, names[1:] + names[:1], strict=True)
        ], got

    @pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c")])
    @pytest.mark.parametrize("cap", [None, 8])
    def test_tools_that_call_each_other_do_not_wait_for_ever(
        self, names: tuple[str, ...], cap: int | None
    ) -> None:
        """R48: each holds what the next one needs. The call that closes the circle is refused;
        all the others go on.
        """

        async def scene() -> tuple[list[Outcome], dict[str, Outcome]]:
            tools, got = self.circle(names)
            executor = Executor(Session(), tools, limits=Limits(max_parallel=cap))
            async with asyncio.timeout(100):
                return await executor.call_many([CallRequest(name) for name in names]), got

        outcomes, got = run_in_virtual_time(scene())

        assert [outcome.text for outcome in outcomes] == [f"{name} is done" for name in names]
        kinds = [failure(got[name]) for name in names]
        assert sorted(kinds, key=str) == [None] * (len(names) - 1) + ["recursion_limit"]
        (refused,) = (each for each in got.values() if not each.ok)
        assert "waits for this one" in refused.text

    def test_a_busy_tool_is_no_circle(self) -> None:
        """Who waits for somebody that waits for nobody gets its turn."""
        both = asyncio.Barrier(2)

        @tool(one_at_a_time=True)
        async def inner() -> str:
            """Work."""
            await asyncio.sleep(1)
            return "done"

        def outer(name: str) -> Any:
            async def call(ctx: ToolContext) -> str:
                """Call the busy tool twice at once."""
                await both.wait()
                two = await asyncio.gather(ctx.call_tool("inner"), ctx.call_tool("inner"))
                return ", ".join(each.text for each in two)

            return tool(name=name, one_at_a_time=True, uses=("inner",))(call)

        async def scene() -> list[Outcome]:
            executor = Executor(Session(), [inner, outer("a"), outer("b")])
            return await executor.call_many([CallRequest("a"), CallRequest("b")])

        assert [each.text for each in run_in_virtual_time(scene())] == ["done, done"] * 2
