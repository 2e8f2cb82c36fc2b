"""The type checker accepts a toolset in an agent, whatever the agent's deps."""

from dataclasses import dataclass
from typing import Any, assert_type

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, AgentToolset, PrefixedToolset, ToolsetTool

from toolcrib.context import AgentContext
from toolcrib.toolsets import BaseTool, HookableToolsetTool, Toolset


@dataclass
class Deps:
    user: str


class Greet(BaseTool):
    name = "greet"
    description = "Greet somebody"

    async def call(self, ctx: RunContext[AgentContext], who: str) -> str:
        return f"Hello, {who}."


class Extended(Toolset):
    async def _call_tool_func(
        self,
        args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: HookableToolsetTool[AgentDepsT],
    ) -> Any:
        return await tool.call_func(args, ctx)


async def use(ctx: RunContext[Deps]) -> None:
    toolset = Toolset(AgentContext(), tools=[Greet])
    accepted: AgentToolset[Deps] = toolset
    bridged: AbstractToolset[Deps] = toolset.for_agent()
    Agent(TestModel(), toolsets=[toolset, Extended(AgentContext(), [Greet])])
    agent = Agent(TestModel(), deps_type=Deps, toolsets=[toolset, accepted, bridged])
    await agent.run("go", deps=Deps("Ada"), toolsets=[toolset.for_agent()])
    assert_type(toolset.for_agent(), AbstractToolset[Any])
    assert_type(toolset.for_agent().prefixed("my"), PrefixedToolset[Any])
    assert_type(await toolset.get_tools(), dict[str, HookableToolsetTool])
    assert_type(await toolset.get_tools(ctx), dict[str, ToolsetTool[Any]])
    Agent(TestModel(), toolsets=[Greet()])  # pyright: ignore[reportArgumentType, reportCallIssue]
