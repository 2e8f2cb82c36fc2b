"""What pydantic-ai lets one do with any toolset, done with ours."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, BinaryContent, DeferredToolResults, RunContext, ToolDefinition
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import AgentToolset, CombinedToolset, WrapperToolset

from tests.toolsets.agent_bridge.agents import (
    Greet,
    Shell,
    agent_of,
    call,
    commands_run,
    deferred,
    endings,
    run,
    told,
)
from toolcrib.context import AgentContext
from toolcrib.toolsets import GlobalHooks, Toolset

if TYPE_CHECKING:
    from decimal import Decimal


async def shown(toolset: AgentToolset[Any]) -> dict[str, ToolDefinition]:
    """The tools that a model is told of."""
    model = TestModel(call_tools=[])
    await Agent(model, toolsets=[toolset]).run("go")
    assert model.last_model_request_parameters is not None
    return {tool.name: tool for tool in model.last_model_request_parameters.function_tools}


async def test_filtered() -> None:
    """T13: tools can be left out by a function of the run."""

    def keep(ctx: RunContext[Any], tool: ToolDefinition) -> bool:
        return tool.name != "shell"

    assert list(
        await shown(Toolset(AgentContext(), [Greet, Shell]).for_agent().filtered(keep))
    ) == ["greet"]


async def test_prefixed() -> None:
    """T13: hooks, ledger and context know the tool by its own name."""
    seen: list[Any] = []

    async def pre(ctx: RunContext[Any], name: str, args: Any) -> Any:
        seen.append((name, ctx.tool_name))
        return args

    ctx = AgentContext()
    toolset = Toolset(ctx, [Greet], global_hooks=GlobalHooks(pre=pre)).for_agent().prefixed("my")
    result = await run(toolset, [call("my_greet", who="Ada")])

    assert list(await shown(toolset)) == ["my_greet"]
    assert told(result) == ("success", "Hello, Ada.")
    assert seen == [("greet", "greet")]
    assert ctx.session.transcript()[-1].tool == "greet"


async def test_renamed() -> None:
    """T13: a tool can have another name for the model."""
    toolset = Toolset(AgentContext(), [Greet]).for_agent().renamed({"hello": "greet"})
    result = await run(toolset, [call("hello", who="Ada")])

    assert told(result) == ("success", "Hello, Ada.")


async def test_prepared() -> None:
    """T13: definitions can be changed for a run."""

    async def prepare(ctx: RunContext[Any], tools: list[ToolDefinition]) -> list[ToolDefinition]:
        return [replace(tool, description="Say hello", sequential=True) for tool in tools]

    toolset = Toolset(AgentContext(), [Greet]).for_agent().prepared(prepare)
    (tool,) = (await shown(toolset)).values()

    assert (tool.description, tool.sequential) == ("Say hello", True)
    assert told(await run(toolset, [call("greet", who="Ada")])) == ("success", "Hello, Ada.")


async def test_metadata_and_deferred_loading() -> None:
    """T13: what only marks definitions leaves the calls alone."""
    toolset = Toolset(AgentContext(), [Greet])

    marked = (await shown(toolset.for_agent().with_metadata(team="a")))["greet"]
    assert marked.metadata is not None
    assert marked.metadata["team"] == "a"
    deferring = (await shown(toolset.for_agent().defer_loading()))["greet"]
    assert deferring.defer_loading is True


async def test_return_schemas() -> None:
    """T13: what a tool returns is told where the model gets it as JSON, and only there."""

    class Text(Greet):
        name = "text"

        async def call(self, ctx: RunContext[Any], who: str) -> Rendered:  # pyright: ignore[reportIncompatibleMethodOverride]
            return Rendered()

    class Image(Greet):
        name = "image"

        async def call(self, ctx: RunContext[Any], who: str) -> BinaryContent:  # pyright: ignore[reportIncompatibleMethodOverride]
            return BinaryContent(b"", media_type="image/png")

    class Odd(Greet):
        name = "odd"

        async def call(self, ctx: RunContext[Any], who: str) -> threading.Lock:  # pyright: ignore[reportIncompatibleMethodOverride]
            return threading.Lock()

    class Later(Greet):
        name = "later"

        async def call(self, ctx: RunContext[Any], who: str) -> Decimal:  # pyright: ignore[reportIncompatibleMethodOverride]
            raise NotImplementedError

    context = await _a_run_context()
    toolset = Toolset(AgentContext(), [Greet, Text, Image, Odd, Later])
    listed = await toolset.get_tools(context)

    assert {name: tool.tool_def.return_schema for name, tool in listed.items()} == {
        "greet": {"type": "string"},
        "text": None,
        "image": None,
        "odd": None,
        "later": None,
    }
    (told_of,) = (
        await shown(Toolset(AgentContext(), [Greet]).for_agent().include_return_schemas())
    ).values()
    assert told_of.description is not None
    assert '"type": "string"' in told_of.description


class Rendered:
    def render(self) -> str:
        return ""


async def _a_run_context() -> RunContext[Any]:
    kept: list[RunContext[Any]] = []

    class Keep(Greet):
        async def call(self, ctx: RunContext[Any], who: str, times: int = 1) -> str:
            kept.append(ctx)
            return who

    await run(Toolset(AgentContext(), [Keep]), [call("greet", who="Ada")])
    return kept[0]


async def test_approval_required(tmp_path: Path) -> None:
    """T13, T38: the wrapper's own question comes before ours and needs no list."""
    ctx = AgentContext(cwd=str(tmp_path))
    agent = agent_of(
        Toolset(ctx, [Shell]).for_agent().approval_required(), steps=[[call("shell", command="ls")]]
    )
    asked = await agent.run("go")
    assert (ctx.session.approvals.pending(), commands_run(tmp_path)) == ([], [])
    result = await agent.run(
        message_history=asked.all_messages(),
        deferred_tool_results=deferred(asked).build_results(approve_all=True),
    )

    assert told(result) == ("success", "ran ls")
    assert endings(ctx.session) == [("c1", None)]


async def test_our_approvals_under_a_prefix(tmp_path: Path) -> None:
    """T38, T40: what the model calls a tool is nothing to the approval of its call."""
    ctx = AgentContext(cwd=str(tmp_path))
    ctx.need_user_approve_tools = ["shell"]
    toolset = Toolset(ctx, [Shell]).for_agent().prefixed("my")
    for approval, expected in ((True, "success"), (False, "denied")):
        agent = agent_of(toolset, steps=[[call("my_shell", command="ls")]])
        asked = await agent.run("go")
        result = await agent.run(
            message_history=asked.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals={"c1": approval}),
        )
        assert told(result)[0] == expected

    assert commands_run(tmp_path) == ["ls"]
    assert ctx.session.open_calls() == []


async def test_wrapped_and_combined() -> None:
    """T13: toolsets of users around ours, and ours among others."""
    before: list[str] = []

    class Noting(WrapperToolset[Any]):
        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            before.append(name)
            return await super().call_tool(name, tool_args, ctx, tool)

    class Wave(Greet):
        name = "wave"

    ours = Noting(Toolset(AgentContext(), [Greet], id="a").for_agent())
    both = CombinedToolset([ours, Toolset(AgentContext(), [Wave]).for_agent()])
    result = await run(both, [call("greet", who="Ada"), call("wave", "c2", who="Bob")])

    assert before == ["greet"]
    assert [told(result, each)[1] for each in ("c1", "c2")] == ["Hello, Ada.", "Hello, Bob."]
    visited: list[str] = []
    both.apply(lambda toolset: visited.append(toolset.label))
    assert visited == ["Toolset 'a'", "Toolset"]
