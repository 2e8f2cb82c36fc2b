"""Hooks around prompts, turns and model requests, in adapters, runtimes and agents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from tests.adapters.openai.loopback_adapter import ask
from tests.runtime.host_runtime import host_tool, new_session, serving
from tests.runtime.host_runtime import model as model_of
from toolcrib import Executor, Hooks, PromptEvaluationError, Refuse, Session, tool
from toolcrib.adapters.openai import Governance
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.calls.hooks import HookEvent
from toolcrib.context import AgentContext
from toolcrib.errors import InvalidHooks, Refused
from toolcrib.ledger.prompt_events import PromptStarted
from toolcrib.testing import calls, says
from toolcrib.toolsets import Toolset, govern, govern_agent

PROMPT_HOOKS: tuple[HookEvent, ...] = (
    "prompt_submitted",
    "turn_started",
    "before_request",
    "after_request",
    "turn_ended",
)


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def model(requests: list[int]) -> FunctionModel:
    """Calls `add`, then says the end; notes each request."""

    async def respond(messages: list[Any], info: Any) -> ModelResponse:
        requests.append(len(messages))
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse(parts=[TextPart("3")])
        return ModelResponse(parts=[ToolCallPart("add", {"a": 1, "b": 2}, "c1")])

    return FunctionModel(respond)


def noting(seen: list[Any], *events: HookEvent) -> Hooks:
    """Hooks that note what they get."""
    hooks = Hooks()
    for event in events:

        async def note(facts: Any, event: HookEvent = event) -> None:
            seen.append((event, facts))

        hooks.on(event)(note)
    return hooks


class TestAdapter:
    async def test_all_of_them_in_order(self) -> None:
        """A prompt of two requests: each hook gets the facts of what it is about."""
        seen: list[Any] = []
        adapter = PydanticAIAdapter(model([]))
        governance = Governance(hooks=noting(seen, *PROMPT_HOOKS))
        response = await adapter.evaluate_async(ask(add), session=Session(), governance=governance)

        assert response.text == "3"
        assert [event for event, _ in seen] == [
            *("prompt_submitted", "turn_started"),
            *("before_request", "after_request") * 2,
            "turn_ended",
        ]
        facts = [each for _, each in seen]
        assert (facts[2].step, facts[2].tools, facts[4].step) == (1, ("add",), 2)
        assert (facts[3].calls, facts[5].calls) == (("add",), ())
        assert facts[6].outcome == "completed"
        assert len({each.session_id for each in facts}) == 1

    @pytest.mark.parametrize(
        ("event", "phase", "sent"),
        [
            ("prompt_submitted", "render", 0),
            ("turn_started", "request", 0),
            ("before_request", "request", 0),
            ("after_request", "response", 1),
        ],
    )
    @pytest.mark.parametrize("fault", ["refuse", "raise", "return", "late"])
    async def test_a_refusal_or_a_fault_stops_the_prompt(
        self, event: HookEvent, phase: str, sent: int, fault: str
    ) -> None:
        """Nothing fails open: a hook that refuses, crashes, returns nonsense or is late ends the
        prompt before what it is about; the call in a refused reply does not run.
        """
        requests, ran = list[int](), list[int]()
        hooks = Hooks()

        @tool(name="add")
        async def adding(a: int, b: int) -> int:
            """Add."""
            ran.append(a)
            return a + b

        @hooks.on(event, timeout=0.01)
        async def guard(facts: Any) -> Any:
            match fault:
                case "refuse":
                    return Refuse("Not today.")
                case "raise":
                    raise RuntimeError("bug")
                case "return":
                    return True
                case _:
                    await asyncio.Event().wait()
                    return None

        session = Session()
        adapter = PydanticAIAdapter(model(requests))
        with pytest.raises(PromptEvaluationError) as caught:
            await adapter.evaluate_async(
                ask(adding), session=session, governance=Governance(hooks=hooks)
            )
        assert caught.value.phase == phase
        assert (len(requests), ran) == (sent, [])
        assert ("Not today." if fault == "refuse" else "guard") in str(caught.value)
        started = session.events(kinds=(PromptStarted.kind,))
        assert bool(list(started)) == (event != "prompt_submitted")

    async def test_hooks_of_several_sets_run_in_order(self) -> None:
        """The first set is the outermost: first before a request, last when a turn has ended."""
        seen: list[str] = []

        def marking(label: str) -> Hooks:
            hooks = Hooks()

            async def mark(facts: Any) -> None:
                seen.append(label)

            hooks.on("turn_started")(mark)
            hooks.on("turn_ended")(mark)
            return hooks

        both = Hooks.combined([marking("outer"), marking("inner")])
        adapter = PydanticAIAdapter(model([]))
        await adapter.evaluate_async(ask(add), session=Session(), governance=Governance(hooks=both))
        assert seen == ["outer", "inner", "inner", "outer"]

    async def test_a_failed_end_hook_changes_nothing(self, caplog: Any) -> None:
        """The turn is over and its answer paid for: the fault is logged."""
        hooks = Hooks()

        @hooks.on("turn_ended")
        async def crash(facts: Any) -> None:
            raise RuntimeError("bug")

        adapter = PydanticAIAdapter(model([]))
        response = await adapter.evaluate_async(
            ask(add), session=Session(), governance=Governance(hooks=hooks)
        )
        assert response.text == "3"
        assert "the turn_ended hook" in caplog.text


class TestWhere:
    def test_a_hook_that_never_runs_is_refused(self) -> None:
        """F14: where an event never comes, its hook would do nothing in silence."""
        seen: list[Any] = []
        with pytest.raises(InvalidHooks, match=r"turn_started hook .* never runs in Executor"):
            Executor(Session(), [add], hooks=noting(seen, "turn_started"))
        with pytest.raises(InvalidHooks, match=r"before_request hook .* never runs in a Toolset"):
            Toolset(tools=[add], hooks=noting(seen, "before_request"))
        with pytest.raises(InvalidHooks, match=r"session_opened hook .* never runs in an agent"):
            govern_agent(hooks=noting(seen, "session_opened"))
        with pytest.raises(InvalidHooks, match=r"turn_ended hook .* never runs in govern"):
            govern(Toolset(tools=[add]).for_agent(), hooks=noting(seen, "turn_ended"))

    def test_calls_have_decorators_of_their_own(self) -> None:
        """`on` is for what is no call."""
        with pytest.raises(InvalidHooks, match=r"write @hooks.before_call\(\.\.\.\)"):
            Hooks().on("before_call")


class TestAgent:
    async def test_all_of_them_in_an_agent(self) -> None:
        """The capability runs the same hooks around the runs and requests of an agent."""
        seen: list[Any] = []
        ctx = AgentContext()
        hooks = noting(seen, *PROMPT_HOOKS)
        agent = Agent(
            model([]), toolsets=[Toolset(ctx, [add])], capabilities=[govern_agent(ctx, hooks=hooks)]
        )
        await agent.run("go")

        assert [event for event, _ in seen] == [
            *("prompt_submitted", "turn_started"),
            *("before_request", "after_request") * 2,
            "turn_ended",
        ]
        assert seen[0][1].text == "go"
        assert seen[3][1].calls == ("add",)
        assert {facts.session_id for _, facts in seen} == {ctx.session.session_id}

    @pytest.mark.parametrize(
        ("event", "sent"),
        [("prompt_submitted", 0), ("turn_started", 0), ("before_request", 0), ("after_request", 1)],
    )
    async def test_a_refusal_leaves_the_run(self, event: HookEvent, sent: int) -> None:
        """Nothing is sent, or nothing of the reply is acted on."""
        requests: list[int] = []
        hooks, ctx = Hooks(), AgentContext()

        @hooks.on(event)
        async def guard(facts: Any) -> Refuse:
            return Refuse("Not today.")

        agent = Agent(
            model(requests),
            toolsets=[Toolset(ctx, [add])],
            capabilities=[govern_agent(ctx, hooks=hooks)],
        )
        with pytest.raises(Refused, match="Not today"):
            await agent.run("go")
        assert len(requests) == sent
        assert ctx.session.transcript() == ()


class TestRuntime:
    async def test_sessions_and_prompts_of_a_runtime(self) -> None:
        """A served session: opened, its prompt with its requests, closed."""
        seen: list[Any] = []
        hooks = noting(seen, "session_opened", *PROMPT_HOOKS, "session_closed")
        adapter = model_of([calls("add", {"a": 1, "b": 2})], [says("3")])
        async with serving(host_tool("add"), hooks=hooks, adapter=adapter) as runtime:
            session_id = await new_session(runtime)
            result = await runtime.send_prompt(session_id, "add")
            assert result.text == "3"
            await runtime.close_session(session_id)

        events = [event for event, _ in seen]
        assert events == [
            *("session_opened", "prompt_submitted", "turn_started"),
            *("before_request", "after_request") * 2,
            *("turn_ended", "session_closed"),
        ]
        assert {facts.session_id for _, facts in seen} == {session_id}
        assert seen[0][1].is_new

    async def test_a_refused_session_is_not_there(self) -> None:
        """A hook refuses to open it: nothing of it is left."""
        hooks = Hooks()

        @hooks.on("session_opened")
        async def guard(facts: Any) -> Refuse:
            return Refuse("Closed on Sundays.")

        async with serving(host_tool("add"), hooks=hooks) as runtime:
            with pytest.raises(Refused, match="Closed on Sundays") as caught:
                await new_session(runtime)
            assert caught.value.kind == "forbidden"
            assert (await runtime.list_sessions()).sessions == []

    async def test_filters_reach_the_calls_of_a_runtime(self) -> None:
        """Filtered hooks guard the calls of a served session, also those of a prompt."""
        hooks, seen = Hooks(), list[str]()

        @hooks.before_call("a*", source="host")
        async def watch(ctx: Any, name: str, args: Any) -> Any:
            seen.append(name)
            return args

        adapter = model_of([calls("add", {"a": 1, "b": 2})], [says("3")])
        tools = (host_tool("add"), host_tool("sub"))
        async with serving(*tools, hooks=hooks, adapter=adapter) as runtime:
            session_id = await new_session(runtime)
            await runtime.send_prompt(session_id, "add")
            await runtime.call_tool(session_id, "sub", {"a": 1, "b": 2})
            await runtime.call_tool(session_id, "add", {"a": 1, "b": 2})
        assert seen == ["add", "add"]
