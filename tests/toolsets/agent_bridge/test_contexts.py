"""What tools and hooks know about the call they serve, inside an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import ModelRetry as TheirRetry
from pydantic_ai import RunContext

from tests.toolsets.agent_bridge.agents import Greet, agent_of, call, run, told
from toolcrib import Outcome, ToolContext
from toolcrib.context import AgentContext
from toolcrib.ledger.events import ToolEmitted, ToolProgress
from toolcrib.testing import Recorder
from toolcrib.toolsets import BaseTool, GlobalHooks, Toolset


class Contexts:
    """Hooks that keep the contexts they were given."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.options: dict[str, Any] = {
            "pre_hooks": {"look": self.pre},
            "post_hooks": {"look": self.post},
            "global_hooks": GlobalHooks(self.global_pre, self.global_post),
        }

    async def global_pre(self, ctx: RunContext[Any], name: str, args: Any) -> Any:
        self.kept.append(ctx)
        return args

    async def pre(self, ctx: RunContext[Any], args: Any) -> Any:
        self.kept.append(ctx)
        return args

    async def post(self, ctx: RunContext[Any], result: Any) -> Any:
        self.kept.append(ctx)
        return result

    async def global_post(self, ctx: RunContext[Any], name: str, result: Any) -> Any:
        self.kept.append(ctx)
        return result


def look_into(kept: list[Any]) -> type[BaseTool]:
    class Look(BaseTool):
        name = "look"
        description = "Keeps its context"

        async def call(self, ctx: RunContext[Any]) -> None:
            kept.append(ctx)

    return Look


async def test_hooks_and_tool_share_one_run_context() -> None:
    """T20: global and own hooks see the very context that the tool sees."""
    seen = Contexts()
    ctx = AgentContext()

    await run(Toolset(ctx, [look_into(seen.kept)], **seen.options), [call("look", "c7")])

    assert len(seen.kept) == 5
    assert len({id(each) for each in seen.kept}) == 1
    assert isinstance(seen.kept[0], RunContext)
    assert (seen.kept[0].tool_call_id, seen.kept[0].tool_name) == ("c7", "look")


async def test_it_is_the_context_of_the_run() -> None:
    """T20: model, usage, messages, run and step are those of the agent."""
    kept: list[Any] = []
    result = await run(
        Toolset(AgentContext(), [look_into(kept)]), [call("look")], [call("look", "c2")]
    )

    first, second = kept
    assert (first.run_id, first.conversation_id) == (result.run_id, result.conversation_id)
    assert (first.run_step, second.run_step) == (1, 2)
    assert first.usage is second.usage
    assert first.prompt == "go"
    assert first.tool_manager is not None
    assert (first.retry, first.max_retries, first.tool_call_approved) == (0, 1, False)


async def test_deps_are_the_agents() -> None:
    """T20: what the application gave the run is what tools and hooks get."""
    kept: list[Any] = []

    class Ours(BaseTool):
        name = "ours"
        description = "Keeps its context"

        async def call(self, ctx: ToolContext) -> None:
            kept.append(ctx)

    toolset = Toolset(AgentContext(), [look_into(kept), Ours])
    agent = agent_of(toolset, steps=[[call("look"), call("ours", "c2")]], deps_type=str)
    await agent.run("go", deps="the deps")

    assert [each.deps for each in kept] == ["the deps", "the deps"]


async def test_without_deps_it_is_the_agent_context() -> None:
    """T20: the document types its tools `RunContext[AgentContext]` and gives the agent none."""
    kept: list[Any] = []
    ctx = AgentContext()

    await run(Toolset(ctx, [look_into(kept)]), [call("look")])

    assert kept[0].deps is ctx


async def test_retries_are_counted_in_it() -> None:
    """T20: a tool knows how often it was tried, and when it is the last time."""
    seen: list[tuple[int, bool]] = []

    class Fussy(BaseTool):
        name = "fussy"
        description = "Wants a second try"

        async def call(self, ctx: RunContext[Any]) -> str:
            seen.append((ctx.retry, ctx.last_attempt))
            if ctx.retry < 2:
                raise TheirRetry("again")
            return "fine"

    calls = [[call("fussy", f"c{n}")] for n in range(3)]
    result = await run(Toolset(AgentContext(), [Fussy], max_retries=2), *calls)

    assert seen == [(0, False), (1, False), (2, True)]
    assert told(result, "c2") == ("success", "fine")


class TestBothFaces:
    async def test_a_run_context_has_what_ours_has(self) -> None:
        """T20: session, directory, progress and further calls are at hand in any tool."""
        kept: list[Any] = []

        class Busy(BaseTool):
            name = "busy"
            description = "Uses its context"
            uses = ("greet",)

            async def call(self, ctx: RunContext[Any]) -> str:
                kept.append(ctx)
                ours: Any = ctx
                ours.progress(1, 2, "half")
                outcome: Outcome = await ours.call_tool("greet", {"who": "Ada"})
                return f"{outcome.value} {ours.cwd} {ours.call_id}"

        session = AgentContext(cwd="/tmp")
        recorder = Recorder(session.session.bus)
        result = await run(Toolset(session, [Busy, Greet]), [call("busy", "c3")])

        assert told(result, "c3") == ("success", "Hello, Ada. /tmp c3")
        assert [event.message for event in recorder.of(ToolProgress)] == ["half"]
        context = kept[0]
        assert context.session is session.session
        assert context.tool_context.call_id == "c3"
        with pytest.raises(AttributeError, match="no attribute 'no_such_thing'"):
            _ = context.no_such_thing

    async def test_a_tool_typed_for_ours_gets_ours(self) -> None:
        """T20: names that both have mean ours there, and the run's context is `run`."""
        kept: list[Any] = []

        class Ours(BaseTool):
            name = "ours"
            description = "Emits"

            async def call(self, ctx: ToolContext) -> int:
                kept.append(ctx)
                ctx.emit("tool.ours.seen", {"ok": True})
                return ctx.run.run_step

        async def pre(ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
            kept.append(ctx)
            return args

        session = AgentContext(metadata={"tenant": "a"})
        recorder = Recorder(session.session.bus)
        result = await run(Toolset(session, [Ours], pre_hooks={"ours": pre}), [call("ours")])

        assert told(result) == ("success", 1)
        assert len(recorder.of(ToolEmitted)) == 1
        assert all(type(each) is ToolContext for each in kept)
        assert kept[0] is kept[1]
        assert (kept[0].metadata, kept[0].tool_call_id) == ({"tenant": "a"}, "c1")

    async def test_a_nested_call_has_a_context_of_its_own(self) -> None:
        """T20, R48: the tool that is called sees its own id and name, and the same deps."""
        kept: list[Any] = []

        class Outer(BaseTool):
            name = "outer"
            description = "Calls another"
            uses = ("look",)

            async def call(self, ctx: RunContext[Any]) -> None:
                kept.append(ctx)
                ours: Any = ctx
                (await ours.call_tool("look", {})).unwrap()

        session = AgentContext()
        await run(Toolset(session, [Outer, look_into(kept)]), [call("outer")])

        outer, inner = kept
        assert (outer.tool_name, outer.tool_call_id) == ("outer", "c1")
        assert inner.tool_name == "look"
        assert inner.tool_call_id not in (None, "c1")
        assert inner.deps is outer.deps is session
        assert inner.run_id == outer.run_id
        assert isinstance(inner, RunContext)

    async def test_calls_do_not_share_a_context(self) -> None:
        """T21: what one call writes into its context no other call reads."""
        kept: list[Any] = []
        toolset = Toolset(AgentContext(), [look_into(kept)])
        await run(toolset, [call("look", "c1"), call("look", "c2")])

        first, second = kept
        assert first is not second
        first.metadata = {"mine": True}
        assert second.metadata is None

    async def test_it_can_be_replaced_like_any_run_context(self) -> None:
        """T20: wrappers of pydantic-ai copy contexts with `dataclasses.replace`."""
        kept: list[Any] = []
        await run(Toolset(AgentContext(), [look_into(kept)]), [call("look")])

        copied = replace(kept[0], tool_name="other")
        assert (copied.tool_name, copied.run_id) == ("other", kept[0].run_id)
        assert copied.call_id == "c1"
