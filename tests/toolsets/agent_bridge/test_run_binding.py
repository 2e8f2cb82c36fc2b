"""A toolset belongs to the run: deps decide session, approvals and instructions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    RunContext,
)
from pydantic_ai.models.test import TestModel

from tests.toolsets.agent_bridge.agents import (
    Greet,
    agent_of,
    call,
    deferred,
    endings,
    invocations,
    run,
    told,
)
from toolcrib import Hooks, Tool, ToolContext, tool
from toolcrib.context import AgentContext
from toolcrib.errors import InvalidHooks, InvalidTool, UsageError
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry
from toolcrib.tools.web_search import web_search_tool
from toolcrib.toolsets import BaseTool, Toolset


class Note(BaseTool):
    """Keeps what was noted in the session that the call belongs to."""

    name = "note"
    description = "Note something"

    def get_instruction(self, ctx: RunContext[AgentContext]) -> str | None:
        return f"You serve {ctx.deps.session.metadata['user']}."

    async def call(self, ctx: RunContext[AgentContext], text: str) -> str:
        await asyncio.sleep(0)
        user = ctx.deps.session.metadata["user"]
        return f"{user}: {text}"


def user_context(name: str, *listed: str) -> AgentContext:
    return AgentContext(metadata={"user": name}, need_user_approve_tools=listed)


class TestManyUsers:
    async def test_one_toolset_serves_twenty_users_at_once(self) -> None:
        """F1: 20 runs at once of one toolset without a context: every user has a ledger, an
        approval list and instructions of their own. Every other user wants to be asked.
        """
        agent = agent_of(
            Toolset(tools=[Note]), steps=[[call("note", text="a")], [call("note", "c2", text="b")]]
        )
        users = [user_context(f"u{n}", *(["note"] if n % 2 else [])) for n in range(20)]

        results = await asyncio.gather(*(agent.run("go", deps=user) for user in users))

        for number, (user, result) in enumerate(zip(users, results, strict=True)):
            instructions = result.all_messages()[0].instructions
            assert instructions == f"You serve u{number}."
            if number % 2:
                assert len(deferred(result).approvals) == 1
                (request,) = user.session.approvals.pending()
                assert request.arguments == {"text": "a"}
                assert endings(user.session) == []
            else:
                assert [each.message for each in invocations(user.session)] == [
                    f"u{number}: a",
                    f"u{number}: b",
                ]
                assert user.session.approvals.pending() == []

        answers = DeferredToolResults(approvals={"c1": True})
        again = await asyncio.gather(
            *(
                agent.run(
                    message_history=result.all_messages(), deferred_tool_results=answers, deps=user
                )
                for user, result in list(zip(users, results, strict=True))[1::2]
            )
        )
        assert len(again) == 10
        for user in users[1::2]:
            assert [each.message for each in invocations(user.session)] == [
                f"{user.session.metadata['user']}: a"
            ]

    async def test_a_run_without_a_context_has_a_session_of_its_own(self) -> None:
        """Two conversations do not share a ledger; a run that goes on with one finds its session,
        approvals included.
        """
        toolset = Toolset(tools=[Greet])
        sessions: list[Any] = []

        class Watching(Greet):
            name = "watching"

            async def call(self, ctx: Any, who: str) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
                sessions.append(ctx.session)
                if not ctx.tool_call_approved:
                    from toolcrib import ApprovalRequired

                    raise ApprovalRequired
                return "hello"

        toolset = Toolset(tools=[Watching])
        agent = agent_of(toolset, steps=[[call("watching", who="a")]])
        first, second = await agent.run("go"), await agent.run("go")
        assert sessions[0] is not sessions[1]

        answers = DeferredToolResults(approvals={"c1": True})
        result = await agent.run(
            message_history=first.all_messages(), deferred_tool_results=answers
        )
        assert told(result) == ("success", "hello")
        assert sessions[2] is sessions[0]
        assert endings(sessions[0]) == [("c1", None)]
        assert endings(sessions[1]) == []
        assert isinstance(second.output, DeferredToolRequests)

    async def test_a_function_finds_the_context_in_the_deps(self) -> None:
        """Deps of any form: a function says whose run it is; None is a session of its own."""
        users = {"ann": user_context("ann")}
        toolset = Toolset(tools=[Greet], context=users.get)
        await run(toolset, [call("greet", who="a")], deps="ann")
        await run(toolset, [call("greet", who="a")], deps="eve")
        assert endings(users["ann"].session) == [("c1", None)]

    async def test_a_wrong_context_is_refused(self) -> None:
        """A function that returns something else must not leave the run ungoverned."""
        toolset = Toolset(tools=[Greet], context=lambda deps: "ann")  # pyright: ignore[reportArgumentType]
        with pytest.raises(UsageError, match="return an AgentContext"):
            await run(toolset, [call("greet", who="a")], deps="ann")

    def test_tools_are_no_context(self) -> None:
        """The slip of leaving out `tools=` is explained."""
        with pytest.raises(UsageError, match=r"write Toolset\(tools="):
            Toolset([Greet])  # pyright: ignore[reportArgumentType]


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def _double(arguments: dict[str, Any], ctx: ToolContext) -> int:
    return arguments["n"] * 2


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
DOUBLE = HostToolDefinition("double", "Double a number", NUMBER, _double)


def _now(params: None) -> str:
    return "noon"


def triple(n: int) -> int:
    """Triple a number."""
    return n * 3


class TestStyles:
    async def test_tools_of_every_style(self) -> None:
        """F2: classes, instances, `@tool`, `Tool`, definitions, a registry and a toolset of
        pydantic-ai in one toolset: all governed alike.
        """
        registry = HostToolRegistry()
        registry.add(HostToolDefinition("host_ping", "Ping", {"type": "object"}, _ping))
        ctx = AgentContext()
        toolset = Toolset(
            ctx,
            tools=[
                Greet,
                add,
                Tool[None, str](name="now", description="The time", handler=_now),
                DOUBLE,
                registry,
                FunctionToolset([triple], id="numbers"),
            ],
        )
        result = await run(
            toolset,
            [
                call("greet", "c1", who="Ada"),
                call("add", "c2", a=1, b=2),
                call("now", "c3"),
                call("double", "c4", n=4),
                call("host_ping", "c5"),
                call("triple", "c6", n=2),
            ],
        )
        contents = [told(result, f"c{number}")[1] for number in range(1, 7)]
        assert contents == ["Hello, Ada.", 3, "noon", 8, "pong", 6]
        sources = {each.name: each.tool.source for each in invocations(ctx.session) if each.tool}
        assert sources == {
            "greet": "python",
            "add": "python",
            "now": "python",
            "double": "host",
            "host_ping": "host",
            "triple": "toolset:numbers",
        }

    async def test_a_program_calls_them_too(self) -> None:
        """Without an agent the same toolset runs them, but for toolsets of pydantic-ai."""
        toolset = Toolset(tools=[Greet, DOUBLE, FunctionToolset([triple])])
        assert await toolset.call_tool("double", {"n": 3}) == 6
        assert sorted(await toolset.get_tools()) == ["double", "greet"]
        assert len(toolset.ctx.session.transcript()) == 1

    async def test_invalid_input_of_a_definition_is_retried(self) -> None:
        """The model reads the fault, and the ledger has the call."""
        ctx = AgentContext()
        result = await run(Toolset(ctx, [DOUBLE]), [call("double", n="x")])
        assert told(result)[0] == "retried"
        assert "/n" in str(told(result)[1])
        assert endings(ctx.session) == [("c1", "invalid_arguments")]

    async def test_hooks_and_approval_are_around_all_of_them(self) -> None:
        """F2: a hook and an approval list reach a definition and a foreign function alike."""
        seen: list[str] = []
        hooks = Hooks()

        @hooks.before_call
        async def watch(ctx: RunContext[Any], name: str, args: Any) -> Any:
            seen.append(name)
            return args

        ctx = AgentContext(need_user_approve_tools=["double", "triple"])
        toolset = Toolset(ctx, tools=[DOUBLE, FunctionToolset([triple])], hooks=hooks)
        result = await run(toolset, [call("double", "c1", n=1), call("triple", "c2", n=1)])
        assert len(deferred(result).approvals) == 2
        assert sorted(seen) == ["double", "triple"]

    async def test_a_client_tool_is_handed_over(self) -> None:
        """A `Tool` without a handler is run by the application: deferred, then with its result."""
        ctx = AgentContext()
        camera = Tool[None, str](name="camera", description="Take a picture")
        agent = agent_of(Toolset(ctx, [camera]), steps=[[call("camera")]])
        waiting = await agent.run("go")
        assert [each.tool_name for each in deferred(waiting).calls] == ["camera"]

        results = DeferredToolResults(calls={"c1": "a cat"})
        await agent.run(message_history=waiting.all_messages(), deferred_tool_results=results)
        (invoked,) = invocations(ctx.session)
        assert (invoked.value, invoked.tool and invoked.tool.place) == ("a cat", "client")

    async def test_an_override_runs_tools_of_every_style(self) -> None:
        """`_call_tool_func` wraps a definition as it wraps a class, with its arguments by name."""
        seen: list[Any] = []

        class Watching(Toolset):
            async def _call_tool_func(self, args: dict[str, Any], ctx: Any, tool: Any) -> Any:
                seen.append((tool.tool_def.name, args))
                return await tool.call_func(args, ctx)

        toolset = Watching(
            tools=[DOUBLE, Tool[None, str](name="now", description="T", handler=_now)]
        )
        assert await toolset.call_tool("double", {"n": 3}) == 6
        assert await toolset.call_tool("now", {}) == "noon"
        assert seen == [("double", {"n": 3}), ("now", {})]

    def test_tools_of_a_provider_are_refused(self) -> None:
        """A toolset cannot run them."""
        with pytest.raises(InvalidTool, match="run by the model's provider"):
            Toolset(tools=[web_search_tool()])

    def test_a_misspelt_hook_of_a_growing_toolset_is_refused(self) -> None:
        """F14: tools may come later, and still "doubl" means `double`."""
        hooks = Hooks()

        @hooks.before_call("doubl")
        async def guard(ctx: Any, name: str, args: Any) -> Any:
            return args

        with pytest.raises(InvalidHooks, match="did you mean 'double'"):
            Toolset(tools=[DOUBLE, HostToolRegistry()], hooks=hooks)


async def _ping(arguments: dict[str, Any], ctx: ToolContext) -> str:
    return "pong"


async def shown(toolset: Any, deps: Any = None) -> list[str]:
    """The tools that a model is told of."""
    model = TestModel(call_tools=[])
    await Agent(model, toolsets=[toolset], deps_type=object).run("go", deps=deps)
    assert model.last_model_request_parameters is not None
    return [tool.name for tool in model.last_model_request_parameters.function_tools]


class TestChanges:
    async def test_a_registry_is_asked_at_every_listing(self) -> None:
        """Tools that are registered or removed later come and go in the toolset."""
        registry = HostToolRegistry()
        toolset = Toolset(tools=[Greet, registry])
        assert await shown(toolset) == ["greet"]
        registry.add(DOUBLE)
        assert await shown(toolset) == ["greet", "double"]
        assert await toolset.call_tool("double", {"n": 1}) == 2
        await registry.unregister("double")
        assert await shown(toolset) == ["greet"]
        assert (await toolset.call("double", {"n": 1})).status == "failed"

    async def test_availability_is_asked_both_ways(self) -> None:
        """F9: False at the start and True later, and back: classes, definitions and `Tool`s."""

        class Flaky(Greet):
            name = "flaky"
            is_up = False

            def is_available(self) -> bool:
                return type(self).is_up

        def is_up() -> bool:
            return Flaky.is_up

        now = Tool[None, str](name="now", description="T", handler=_now, available_when=is_up)
        toolset = Toolset(tools=[Flaky, now])
        listed: list[Sequence[str]] = []
        for state in (False, True, False):
            Flaky.is_up = state
            listed.append(await shown(toolset))
        assert listed == [[], ["flaky", "now"], []]
        assert (await toolset.call("flaky", {"who": "a"})).text.endswith("is not available now.")

    async def test_a_toolset_that_changes_with_the_run(self) -> None:
        """A toolset of pydantic-ai that is made for each run works inside a toolset of ours."""
        from pydantic_ai.toolsets import AbstractToolset
        from pydantic_ai.toolsets._dynamic import DynamicToolset

        def of_run(ctx: RunContext[Any]) -> AbstractToolset[Any]:
            return FunctionToolset([triple] if ctx.deps == "ann" else [])

        toolset = Toolset(tools=[Greet, DynamicToolset(of_run)])
        assert await shown(toolset, "ann") == ["greet", "triple"]
        assert await shown(toolset, "bob") == ["greet"]
