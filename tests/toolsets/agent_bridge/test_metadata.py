"""The metadata of a `ToolResult` arrives wherever its value does."""

from __future__ import annotations

from typing import Any

from pydantic_ai import ToolReturn

from tests.toolsets.agent_bridge.agents import call, invocations, returns, run
from toolcrib import Hooks, Outcome, ToolInvoked, ToolResult, tool
from toolcrib.context import AgentContext
from toolcrib.session.bus import EventBus
from toolcrib.toolsets import Toolset

ROW = {"row": 7, "from": {"table": "parts"}}


@tool
async def lookup(part: str) -> ToolResult[str]:
    """Look up a part."""
    return ToolResult(value="drawer 3", metadata=ROW)


async def test_an_agent_gets_it_beside_the_value() -> None:
    """F6: in the history as the metadata of the tool return, and never in what the model reads."""
    ctx = AgentContext()
    result = await run(Toolset(ctx, [lookup]), [call("lookup", part="bolt")])

    part = returns(result)["c1"]
    assert (part.content, part.metadata) == ("drawer 3", ROW)
    assert "parts" not in part.model_response_str()


async def test_records_and_events_have_it() -> None:
    """F6: the ledger and whoever listens get it with the call."""
    heard: list[Any] = []
    bus = EventBus()
    bus.subscribe(ToolInvoked, heard.append)
    ctx = AgentContext(bus=bus)
    await run(Toolset(ctx, [lookup]), [call("lookup", part="bolt")])

    (invoked,) = invocations(ctx.session)
    assert invoked.metadata == ROW
    assert [event.metadata for event in heard] == [ROW]


async def test_a_tool_return_of_the_tool_keeps_its_own() -> None:
    """A `ToolResult` around pydantic-ai's `ToolReturn`: the inner metadata is the agent's."""

    @tool
    async def both(part: str) -> Any:
        """Look up a part."""
        return ToolResult(value=ToolReturn("x", metadata={"inner": 1}), metadata=ROW)

    ctx = AgentContext()
    result = await run(Toolset(ctx, [both]), [call("both", part="bolt")])
    assert returns(result)["c1"].metadata == {"inner": 1}
    assert invocations(ctx.session)[0].metadata == ROW


async def test_a_program_gets_it() -> None:
    """F6: an outcome has it, also after a post hook that keeps the result."""

    async def keep(ctx: Any, name: str, result: Any) -> Any:
        return result

    hooks = Hooks()
    hooks.after_call(keep)
    outcome: Outcome = await Toolset(tools=[lookup], hooks=hooks).call("lookup", {"part": "a"})
    assert outcome.metadata == ROW
    assert outcome.result.metadata == ROW
