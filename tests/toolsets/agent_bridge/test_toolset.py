"""How an agent enters, asks and leaves a toolset, as a callable and as an `AbstractToolset`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.toolsets import AgentToolset, DynamicToolset, WrapperToolset

from tests.toolsets.agent_bridge.agents import (
    Greet,
    Shell,
    agent_of,
    call,
    commands_run,
    deferred,
    endings,
    run,
    scripted,
    told,
)
from toolcrib.context import AgentContext
from toolcrib.toolsets import Toolset


class Opened(Toolset):
    """A toolset with something to open and close, and its own listing and instructions."""

    log: list[str]

    async def __aenter__(self) -> Self:
        self.log.append("enter")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append("exit")

    async def get_instructions(self, ctx: Any = None) -> str | None:
        self.log.append("instructions")
        return "Be kind."

    async def call_tool(self, name: str, tool_args: Any, ctx: Any = None, tool: Any = None) -> Any:
        self.log.append(f"call {name}")
        return await super().call_tool(name, tool_args, ctx, tool)


def opened(**options: Any) -> Opened:
    toolset = Opened(AgentContext(), [Greet], **options)
    toolset.log = []
    return toolset


def as_callable(toolset: Toolset) -> AgentToolset[Any]:
    return toolset


def as_toolset(toolset: Toolset) -> AgentToolset[Any]:
    return toolset.for_agent()


WAYS = pytest.mark.parametrize("way", [as_callable, as_toolset])


@WAYS
async def test_a_run_enters_once_and_leaves_at_its_end(way: Any) -> None:
    """T13: several steps do not open and close the toolset again, and overrides are used."""
    toolset = opened()
    result = await run(way(toolset), [call("greet", who="Ada")], [call("greet", "c2", who="Bob")])

    assert [told(result, call_id)[1] for call_id in ("c1", "c2")] == ["Hello, Ada.", "Hello, Bob."]
    assert toolset.log == [
        "enter",
        "instructions",
        "call greet",
        "instructions",
        "call greet",
        "instructions",
        "exit",
    ]


@WAYS
async def test_a_run_that_fails_leaves_it_too(way: Any) -> None:
    """T13: an exception of a tool ends the run, and the toolset is closed."""

    class Broken(Greet):
        async def call(self, ctx: RunContext[Any], who: str, times: int = 1) -> str:
            raise RuntimeError(who)

    toolset = Opened(AgentContext(), [Broken])
    toolset.log = []
    with pytest.raises(RuntimeError, match="Ada"):
        await run(way(toolset), [call("greet", who="Ada")])

    assert (toolset.log[0], toolset.log[-1]) == ("enter", "exit")


async def test_runs_side_by_side_share_it() -> None:
    """T13: one toolset in two runs at once: each enters and leaves, neither closes the other's."""
    toolset = opened()
    agent = Agent(scripted([call("greet", who="Ada")]), toolsets=[toolset])
    async with agent.iter("go") as outer:
        async for _ in outer:
            if toolset.log.count("enter") == 1:
                await agent.run("go")

    assert (toolset.log.count("enter"), toolset.log.count("exit")) == (2, 2)
    assert outer.result is not None
    assert told(outer.result) == ("success", "Hello, Ada.")


async def test_override_takes_the_toolset_of_for_agent() -> None:
    """T13: `agent.override(toolsets=...)` replaces the agent's toolsets for a while."""

    class Wave(Greet):
        name = "wave"

    agent = Agent(scripted([call("wave", who="Ada")]), toolsets=[Toolset(AgentContext(), [Greet])])
    with agent.override(toolsets=[Toolset(AgentContext(), [Wave]).for_agent()]):
        result = await agent.run("go")

    assert told(result) == ("success", "Hello, Ada.")


async def test_a_deferred_approval_in_an_agent_that_is_given_the_toolset_per_run(
    tmp_path: Path,
) -> None:
    """T38: the call that waits is found again by the next run."""
    ctx = AgentContext(cwd=str(tmp_path))
    ctx.need_user_approve_tools = ["shell"]
    toolset = Toolset(ctx, [Shell]).for_agent()
    agent = agent_of(steps=[[call("shell", command="ls")]])
    waiting = await agent.run("go", toolsets=[toolset])
    assert commands_run(tmp_path) == []
    result = await agent.run(
        message_history=waiting.all_messages(),
        deferred_tool_results=deferred(waiting).build_results(approve_all=True),
        toolsets=[toolset],
    )

    assert told(result) == ("success", "ran ls")
    assert endings(ctx.session) == [("c1", None)]


async def test_leaves_are_replaced_as_durable_execution_does() -> None:
    """T13: durable agents replace every toolset by a wrapper with its id, and call through it."""
    log: list[str | None] = []

    class Durable(WrapperToolset[Any]):
        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            log.append(self.wrapped.id)
            again = await self.wrapped.get_tool_for_tool_def(tool.tool_def, ctx)
            return await super().call_tool(name, tool_args, ctx, again)

    ours = Toolset(AgentContext(), [Greet], id="desk").for_agent()
    durable = ours.prefixed("my").visit_and_replace(Durable)
    result = await run(durable, [call("my_greet", who="Ada")])

    assert log == ["desk"]
    assert told(result) == ("success", "Hello, Ada.")


async def test_a_dynamic_toolset_gives_the_callable_an_id() -> None:
    """T13: pydantic-ai's own wrapper around the callable, with an id and once per run."""
    toolset = opened(id="desk")
    dynamic: DynamicToolset[Any] = DynamicToolset(toolset, per_run_step=False, id="desk")
    result = await run(dynamic, [call("greet", who="Ada")])

    assert dynamic.id == "desk"
    assert told(result) == ("success", "Hello, Ada.")
    assert (toolset.log.count("enter"), toolset.log.count("exit")) == (1, 1)


async def test_errors_of_the_library_name_our_toolset() -> None:
    """T13: a name that two toolsets have is reported with the toolset's class and id."""
    first, second = (Toolset(AgentContext(), [Greet], id=name) for name in ("a", "b"))

    with pytest.raises(UserError, match=r"Toolset 'b' defines a tool whose name.*Toolset 'a'"):
        await agent_of(first, second, steps=[]).run("go")
