"""Time limits of tools inside an agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import RunContext

from tests.toolsets.agent_bridge.agents import call, endings, run, told
from toolcrib.context import AgentContext
from toolcrib.testing import run_in_virtual_time
from toolcrib.toolsets import BaseTool, Toolset


class Sleep(BaseTool):
    name = "sleep"
    description = "Sleep"

    async def call(self, ctx: RunContext[Any], seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "slept"


class Quick(Sleep):
    name = "quick"
    timeout = 2.0


def test_a_tool_that_takes_too_long_may_be_tried_again() -> None:
    """T37: the toolset's limit binds, the tool's own comes first, and the model is asked to try
    again, as with pydantic-ai's own limits.
    """
    ctx = AgentContext()
    toolset = Toolset(ctx, [Sleep, Quick], timeout=10.0, max_retries=3)
    calls = [
        call("sleep", "c1", seconds=9.0),
        call("sleep", "c2", seconds=11.0),
        call("quick", "c3", seconds=3.0),
    ]
    result = run_in_virtual_time(run(toolset, calls))

    assert told(result, "c1") == ("success", "slept")
    for call_id, limit in (("c2", 10), ("c3", 2)):
        outcome, content = told(result, call_id)
        assert outcome == "retried"
        assert f"did not finish within {limit} seconds" in content
    assert sorted(endings(ctx.session)) == [("c1", None), ("c2", "timeout"), ("c3", "timeout")]


def test_post_hooks_see_the_limit() -> None:
    """T27: an expired limit reaches them as a value, and they may recover."""

    async def recover(ctx: RunContext[Any], result: Any) -> Any:
        return "too slow" if isinstance(result, TimeoutError) else result

    toolset = Toolset(AgentContext(), [Quick], post_hooks={"quick": recover})
    result = run_in_virtual_time(run(toolset, [call("quick", seconds=3.0)]))

    assert told(result) == ("success", "too slow")


def test_a_tool_that_cannot_be_stopped_is_not_tried_again() -> None:
    """T37: beside a handler that goes on, the model is not asked to begin another."""

    class Stubborn(BaseTool):
        name = "stubborn"
        description = "Ignores its cancellation"
        timeout = 1.0

        async def call(self, ctx: RunContext[Any]) -> None:
            for _ in range(5):
                try:
                    await asyncio.sleep(1)
                except asyncio.CancelledError:
                    continue

    async def scenario() -> Any:
        result = await run(Toolset(AgentContext(), [Stubborn]), [call("stubborn")])
        # Past the end of the handler, which nobody awaits.
        await asyncio.sleep(10)
        return result

    outcome, content = told(run_in_virtual_time(scenario()))
    assert outcome == "failed"
    assert "still running" in content


def test_a_timeout_of_the_tools_own_is_its_own_failure() -> None:
    """T34: it is raised like any exception of a tool."""

    class Own(BaseTool):
        name = "own"
        description = "Raises"
        timeout = 5.0

        async def call(self, ctx: RunContext[Any]) -> None:
            raise TimeoutError("the server did not answer")

    with pytest.raises(TimeoutError, match="the server did not answer"):
        run_in_virtual_time(run(Toolset(AgentContext(), [Own]), [call("own")]))


async def test_one_call_can_be_cancelled() -> None:
    """T28: from outside, by its id; the model is told and the run goes on."""
    started = asyncio.Event()

    class Forever(BaseTool):
        name = "forever"
        description = "Never ends"

        async def call(self, ctx: RunContext[Any]) -> None:
            started.set()
            await asyncio.Event().wait()

    ctx = AgentContext()
    toolset = Toolset(ctx, [Forever])
    running = asyncio.create_task(run(toolset, [call("forever")]))
    await started.wait()
    assert toolset.cancel("c1")

    assert told(await running)[0] == "failed"
    assert endings(ctx.session) == [("c1", "cancelled")]
