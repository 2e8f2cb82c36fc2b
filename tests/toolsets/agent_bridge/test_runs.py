"""Whole runs of agents with a toolset: what the model gets, and what the session has of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, ToolCallPart, UnexpectedModelBehavior
from pydantic_ai import ModelRetry as TheirRetry
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import FunctionToolResultEvent
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager

from tests.toolsets.agent_bridge.agents import (
    Greet,
    agent_of,
    call,
    endings,
    invocations,
    run,
    scripted,
    told,
)
from toolcrib import CallFailed, ToolContext
from toolcrib.context import AgentContext
from toolcrib.errors import UsageError
from toolcrib.ledger.events import CallStarted, ToolInvoked, TurnStarted
from toolcrib.testing import Recorder
from toolcrib.toolsets import BaseTool, Toolset


class TestOneCall:
    async def test_the_agent_runs_our_tool(self) -> None:
        """T13: the document's line works as it stands, and the model gets the tool's value."""
        ctx = AgentContext()
        toolset = Toolset(ctx, tools=[Greet])

        agent = Agent(scripted([call("greet", who="Ada")]), toolsets=[toolset])
        result = await agent.run("go")

        assert (result.output, told(result)) == ("done", ("success", "Hello, Ada."))

    async def test_the_call_is_in_the_ledger_and_on_the_bus(self) -> None:
        """T13: the call goes through the executor, so the session has it like any other."""
        ctx = AgentContext()
        recorder = Recorder(ctx.session.bus)

        result = await run(Toolset(ctx, [Greet]), [call("greet", "c7", who="Ada", times=2)])

        (invoked,) = invocations(ctx.session)
        assert (invoked.call_id, invoked.name, invoked.success) == ("c7", "greet", True)
        assert invoked.params == {"who": "Ada", "times": 2}
        assert (invoked.value, invoked.transport) == ("Hello, Ada. Hello, Ada.", "pydantic-ai")
        assert invoked.principal == f"conversation:{result.conversation_id}"
        assert [type(event) for event in recorder.events] == [
            TurnStarted,
            CallStarted,
            ToolInvoked,
        ]
        assert ctx.session.verify() is not None

    async def test_the_model_reads_name_description_and_schema(self) -> None:
        """T2, T3: what the class says is what the agent tells the model."""
        model = TestModel(call_tools=[])
        await Agent(model, toolsets=[Toolset(AgentContext(), [Greet])]).run("go")

        assert model.last_model_request_parameters is not None
        (tool,) = model.last_model_request_parameters.function_tools
        assert (tool.name, tool.description) == ("greet", "Greet somebody")
        assert tool.parameters_json_schema["properties"] == {
            "who": {"type": "string"},
            "times": {"type": "integer", "default": 1},
        }
        assert tool.parameters_json_schema["required"] == ["who"]

    async def test_arguments_may_come_as_a_dict(self) -> None:
        """T4: some models and all of pydantic-ai's own send no text."""
        ctx = AgentContext()
        result = await run(Toolset(ctx, [Greet]), [ToolCallPart("greet", {"who": "Ada"}, "c1")])

        assert told(result) == ("success", "Hello, Ada.")

    async def test_a_tool_without_arguments(self) -> None:
        """T3: no arguments, an empty text and an empty object are the same."""

        class Now(BaseTool):
            name = "now"
            description = "Tell the time"

            async def call(self, ctx: RunContext[Any]) -> str:
                return "noon"

        ways: list[str | dict[str, Any] | None] = [None, "", "{}", {}]
        calls = [ToolCallPart("now", args, f"c{n}") for n, args in enumerate(ways)]
        result = await run(Toolset(AgentContext(), [Now]), calls)

        assert [told(result, f"c{n}")[1] for n in range(4)] == ["noon"] * 4


class TestValidation:
    @pytest.mark.parametrize(
        ("args", "where"),
        [
            ('{"who": 1}', ("who",)),
            ('{"who": "Ada", "times": "2"}', ("times",)),
            ('{"who": "Ada", "extra": 1}', ("extra",)),
            ("{", ()),
        ],
    )
    async def test_invalid_arguments_are_a_retry_prompt(
        self, args: str, where: tuple[str, ...]
    ) -> None:
        """T4: the model reads what was wrong, as users of pydantic-ai expect, and tries again."""
        ctx = AgentContext()
        result = await run(
            Toolset(ctx, [Greet]),
            [ToolCallPart("greet", args, "c1")],
            [call("greet", "c2", who="Ada")],
        )

        outcome, faults = told(result)
        assert outcome == "retried"
        assert tuple(faults[0]["loc"]) == where
        assert told(result, "c2") == ("success", "Hello, Ada.")
        assert endings(ctx.session) == [("c1", "invalid_arguments"), ("c2", None)]

    async def test_invalid_arguments_reach_neither_hooks_nor_tool(self) -> None:
        """T4: nothing of the user's runs before the arguments are what they should be."""
        seen: list[Any] = []

        async def pre(ctx: RunContext[Any], args: dict[str, Any]) -> dict[str, Any]:
            seen.append(args)
            return args

        await run(
            Toolset(AgentContext(), [Greet], pre_hooks={"greet": pre}),
            [ToolCallPart("greet", '{"who": 1}', "c1")],
        )

        assert seen == []

    async def test_an_agent_that_skips_the_second_step(self) -> None:
        """T4: whoever calls the toolset with what its validator returned, without asking what is
        wrong with it, runs nothing either.
        """
        kept: list[RunContext[Any]] = []

        class Keep(Greet):
            async def call(self, ctx: RunContext[Any], who: str, times: int = 1) -> str:
                kept.append(ctx)
                return who

        ctx = AgentContext()
        toolset = Toolset(ctx, [Keep])
        await run(toolset, [call("greet", who="Ada")])
        tool = (await toolset.get_tools(kept[0]))["greet"]
        validated = tool.args_validator.validate_json('{"who": 1}')

        with pytest.raises(TheirRetry, match="/who"):
            await toolset.call_tool("greet", validated, kept[0], tool)
        assert len(kept) == 1
        assert endings(ctx.session) == [("c1", None), ("c1#2", "invalid_arguments")]

    async def test_arguments_that_are_not_json(self) -> None:
        """T4: a hook of the agent that puts an object into them is told, and nothing runs."""
        hooks: Hooks[Any] = Hooks()

        @hooks.on.before_tool_execute
        async def change(
            ctx: RunContext[Any], *, call: Any, tool_def: Any, args: dict[str, Any]
        ) -> dict[str, Any]:
            return {"who": object()}

        agent = agent_of(
            Toolset(AgentContext(), [Greet]),
            steps=[[call("greet", who="Ada")]],
            capabilities=[hooks],
        )
        with pytest.raises(UsageError, match="the arguments are not JSON"):
            await agent.run("go")

    async def test_retries_are_counted(self) -> None:
        """T4: `max_retries` of the tool comes before the toolset's, and that before the agent's."""

        class Patient(Greet):
            name = "patient"
            max_retries = 2

        async def tries(name: str, **options: Any) -> int:
            ctx = AgentContext()
            bad = [ToolCallPart(name, "{}", "c1")]
            with pytest.raises(UnexpectedModelBehavior, match="exceeded max retries"):
                await agent_of(
                    Toolset(ctx, [Greet, Patient], **options), steps=[bad] * 9, retries=3
                ).run("go")
            return len(endings(ctx.session))

        assert await tries("greet") == 4
        assert await tries("greet", max_retries=0) == 1
        assert await tries("patient", max_retries=0) == 3

    async def test_what_hooks_of_the_agent_changed_is_validated(self) -> None:
        """T4: the arguments that count are those that reach us, and they are checked again."""
        hooks: Hooks[Any] = Hooks()

        @hooks.on.before_tool_execute
        async def change(
            ctx: RunContext[Any], *, call: Any, tool_def: Any, args: dict[str, Any]
        ) -> dict[str, Any]:
            return {"who": args["who"], "times": "many" if args["who"] == "Bob" else 2}

        ctx = AgentContext()
        result = await agent_of(
            Toolset(ctx, [Greet]),
            steps=[[call("greet", who="Ada")], [call("greet", "c2", who="Bob")]],
            capabilities=[hooks],
        ).run("go")

        assert told(result) == ("success", "Hello, Ada. Hello, Ada.")
        assert told(result, "c2")[0] == "retried"
        assert endings(ctx.session) == [("c1", None), ("c2", "invalid_arguments")]


class TestListing:
    async def test_unavailable_tools_are_not_shown(self) -> None:
        """T5, T6: `skip_unavailable` decides, and the question is put at every step."""

        class Flaky(Greet):
            name = "flaky"
            is_up = True

            def is_available(self) -> bool:
                return type(self).is_up

        async def shown(toolset: Toolset) -> list[str]:
            model = TestModel(call_tools=[])
            await Agent(model, toolsets=[toolset]).run("go")
            assert model.last_model_request_parameters is not None
            return [tool.name for tool in model.last_model_request_parameters.function_tools]

        skipping = Toolset(AgentContext(), [Greet, Flaky])
        assert await shown(skipping) == ["greet", "flaky"]
        Flaky.is_up = False
        assert await shown(skipping) == ["greet"]
        assert await shown(Toolset(AgentContext(), [Flaky], skip_unavailable=False)) == ["flaky"]

    async def test_instructions_reach_the_model(self) -> None:
        """T7, T8: each tool adds its text, with the run context at hand; None adds nothing."""

        class Careful(Greet):
            name = "careful"

            def get_instruction(self, ctx: RunContext[Any]) -> str | None:
                return f"Step {ctx.run_step} of {ctx.deps.session.session_id}."

        class Ours(Greet):
            name = "ours"

            def get_instruction(self, ctx: ToolContext) -> str | None:
                return f"In {ctx.cwd} for {ctx.deps.session.session_id}."

        session_id = "ses_1"
        ctx = AgentContext(session_id=session_id, cwd="/tmp")
        result = await run(Toolset(ctx, [Greet, Careful, Ours]), [call("greet", who="Ada")])
        requests = result.all_messages()[::2]

        assert [getattr(request, "instructions", None) for request in requests] == [
            f"Step {step} of ses_1.\n\nIn /tmp for ses_1." for step in (1, 2)
        ]
        silent = await run(Toolset(AgentContext(), [Greet]))
        assert getattr(silent.all_messages()[0], "instructions", "?") is None

    async def test_who_prepares_definitions_changes_no_other_run(self) -> None:
        """T2: every listing has definitions of its own."""
        toolset = Toolset(AgentContext(), [Greet])

        async def deface(ctx: RunContext[Any], tools: list[Any]) -> list[Any]:
            for tool in tools:
                tool.description = "defaced"
                tool.parameters_json_schema["properties"].clear()
            return tools

        await Agent(TestModel(call_tools=[]), toolsets=[toolset.for_agent().prepared(deface)]).run(
            "go"
        )
        clean = (await toolset.get_tools())["greet"].tool_def

        assert clean.description == "Greet somebody"
        assert set(clean.parameters["properties"]) == {"who", "times"}

    async def test_facts_for_filters_are_in_the_metadata(self) -> None:
        """R47: category, version and what a tool may do can be filtered by."""

        class Reader(Greet):
            name = "reader"
            category = "files"
            version = "2.1.0"
            is_read_only = True

        def only_readers(ctx: RunContext[Any], tool: Any) -> bool:
            return tool.metadata.get("is_read_only", False)

        model = TestModel(call_tools=[])
        toolset = Toolset(AgentContext(), [Greet, Reader]).for_agent().filtered(only_readers)
        await Agent(model, toolsets=[toolset]).run("go")

        assert model.last_model_request_parameters is not None
        (tool,) = model.last_model_request_parameters.function_tools
        assert tool.metadata == {"category": "files", "version": "2.1.0", "is_read_only": True}


class Meet(BaseTool):
    """Waits until as many calls are inside as it was told: proof that they run at once."""

    name = "meet"
    description = "Meet the others"
    inside = 0
    most = 0
    met: asyncio.Event

    async def call(self, ctx: RunContext[Any], wanted: int) -> int:
        cls = type(self)
        cls.inside += 1
        cls.most = max(cls.most, cls.inside)
        if cls.inside >= wanted:
            cls.met.set()
        if wanted > 1:
            await cls.met.wait()
        await asyncio.sleep(0)
        cls.inside -= 1
        return cls.most

    @classmethod
    def fresh(cls) -> type[Meet]:
        return type("Meet", (cls,), {"met": asyncio.Event(), "inside": 0, "most": 0})


class TestTogether:
    async def test_calls_of_one_step_run_at_once(self) -> None:
        """T21: three calls that wait for each other all finish, each with its own id."""
        ctx = AgentContext()
        calls = [call("meet", f"c{n}", wanted=3) for n in range(3)]
        result = await run(Toolset(ctx, [Meet.fresh()]), calls)

        assert [told(result, f"c{n}") for n in range(3)] == [("success", 3)] * 3
        assert {call_id for call_id, _ in endings(ctx.session)} == {"c0", "c1", "c2"}

    async def test_a_tool_that_runs_one_at_a_time(self) -> None:
        """T21: `one_at_a_time` binds in an agent too, without holding up other tools."""
        alone = type("Alone", (Meet.fresh(),), {"one_at_a_time": True, "name": "alone"})
        calls = [call("alone", f"c{n}", wanted=1) for n in range(3)]
        result = await run(Toolset(AgentContext(), [alone]), calls)

        assert [told(result, f"c{n}")[1] for n in range(3)] == [1, 1, 1]

    async def test_the_agents_own_sequential_mode(self) -> None:
        """T21: what pydantic-ai runs in sequence stays in sequence."""
        calls = [call("meet", f"c{n}", wanted=1) for n in range(3)]
        with ToolManager.parallel_execution_mode("sequential"):
            result = await run(Toolset(AgentContext(), [Meet.fresh()]), calls)

        assert [told(result, f"c{n}")[1] for n in range(3)] == [1, 1, 1]

    async def test_two_toolsets_in_one_agent(self) -> None:
        """T13: each has its own session, and its own hooks."""
        first, second = AgentContext(), AgentContext()

        class Wave(Greet):
            name = "wave"

        result = await agent_of(
            Toolset(first, [Greet], id="greeting"),
            Toolset(second, [Wave]),
            steps=[[call("greet", who="Ada"), call("wave", "c2", who="Bob")]],
        ).run("go")

        assert [told(result, each)[1] for each in ("c1", "c2")] == ["Hello, Ada.", "Hello, Bob."]
        assert (endings(first.session), endings(second.session)) == ([("c1", None)], [("c2", None)])

    async def test_two_toolsets_on_one_session(self) -> None:
        """T13: one ledger then has the calls of both."""
        ctx = AgentContext()

        class Wave(Greet):
            name = "wave"

        result = await agent_of(
            Toolset(ctx, [Greet]),
            Toolset(ctx, [Wave]),
            steps=[[call("greet", who="Ada"), call("wave", "c2", who="Bob")]],
        ).run("go")

        assert result.output == "done"
        assert sorted(endings(ctx.session)) == [("c1", None), ("c2", None)]

    async def test_names_that_clash_are_told(self) -> None:
        """T11: pydantic-ai names both toolsets, by the id that they were given."""
        first = Toolset(AgentContext(), [Greet], id="one")
        second = Toolset(AgentContext(), [Greet], id="two")

        with pytest.raises(Exception, match=r"'two' defines a tool .* Toolset 'one': 'greet'"):
            await agent_of(first, second, steps=[]).run("go")

    async def test_one_toolset_in_runs_at_once(self) -> None:
        """T21: runs that call under the same id at the same time do not mix."""
        ctx = AgentContext()
        tool = Meet.fresh()
        toolset = Toolset(ctx, [tool])
        results = await asyncio.gather(*(run(toolset, [call("meet", wanted=3)]) for _ in range(3)))

        assert [told(result) for result in results] == [("success", 3)] * 3
        recorded = endings(ctx.session)
        assert len({call_id for call_id, _ in recorded}) == 3
        assert {failure for _, failure in recorded} == {None}


@pytest.fixture
def own_loop() -> Iterator[None]:
    """A loop for blocking runs: they leave open the one that they would make."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


class TestWaysToRun:
    def test_run_sync(self, own_loop: None) -> None:
        """T13: the blocking run, again and again with one toolset."""
        ctx = AgentContext()
        agent = Agent(scripted([call("greet", who="Ada")]), toolsets=[Toolset(ctx, [Greet])])

        assert [told(agent.run_sync("go")) for _ in range(2)] == [("success", "Hello, Ada.")] * 2
        assert endings(ctx.session) == [("c1", None)] * 2

    async def test_run_stream(self) -> None:
        """T13: a streamed run."""
        ctx = AgentContext()
        model = TestModel(custom_output_text="done")
        agent = Agent(model, toolsets=[Toolset(ctx, [Greet])])
        async with agent.run_stream("go") as streamed:
            text = [each async for each in streamed.stream_text(delta=True)]

        assert "".join(text) == "done"
        assert [failure for _, failure in endings(ctx.session)] == [None]

    async def test_iter_and_events(self) -> None:
        """T13: a run taken step by step, with its events."""
        ctx = AgentContext()
        agent = Agent(scripted([call("greet", who="Ada")]), toolsets=[Toolset(ctx, [Greet])])
        seen: list[Any] = []
        async with agent.iter("go") as steps:
            async for node in steps:
                if Agent.is_call_tools_node(node):
                    async with node.stream(steps.ctx) as events:
                        seen += [e async for e in events if isinstance(e, FunctionToolResultEvent)]

        assert [event.part.content for event in seen] == ["Hello, Ada."]
        assert endings(ctx.session) == [("c1", None)]

    async def test_a_toolset_given_to_the_run(self) -> None:
        """T13: not to the agent."""
        agent = Agent(scripted([call("greet", who="Ada")]))
        result = await agent.run("go", toolsets=[Toolset(AgentContext(), [Greet]).for_agent()])

        assert told(result) == ("success", "Hello, Ada.")

    async def test_outside_an_agent_it_is_what_it_was(self) -> None:
        """T13: the same object still serves programs, with our own exceptions."""
        toolset = Toolset(AgentContext(), [Greet])

        assert await toolset.call_tool("greet", {"who": "Ada"}) == "Hello, Ada."
        with pytest.raises(CallFailed, match="invalid_arguments"):
            await toolset.call_tool("greet", {"who": 1})


class TestCancelling:
    async def test_a_cancelled_run_cancels_the_call(self) -> None:
        """T28: the tool is stopped, the ledger says cancelled, and no post hook sees anything."""
        started = asyncio.Event()
        stopped: list[str] = []
        seen: list[Any] = []

        class Sleep(BaseTool):
            name = "sleep"
            description = "Sleep"

            async def call(self, ctx: RunContext[Any]) -> None:
                started.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    stopped.append("cancelled")
                    raise

        async def post(ctx: RunContext[Any], result: Any) -> Any:
            seen.append(result)
            return result

        ctx = AgentContext()
        toolset = Toolset(ctx, [Sleep], post_hooks={"sleep": post})
        running = asyncio.create_task(run(toolset, [call("sleep")]))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert (stopped, seen) == (["cancelled"], [])
        assert endings(ctx.session) == [("c1", "cancelled")]
