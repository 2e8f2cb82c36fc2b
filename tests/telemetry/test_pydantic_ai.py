"""Telemetry beside pydantic-ai's own, and of prompts on its models."""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

from tests.adapters.pydantic_ai import scripted_adapter as models
from tests.telemetry.memory_collector import Collected, attributes
from tests.toolsets.agent_bridge.agents import Greet, call, scripted
from toolcrib.context import AgentContext
from toolcrib.session.session import Session
from toolcrib.toolsets import Toolset


async def test_calls_of_an_agent_are_under_its_own_spans() -> None:
    """R43: an instrumented agent and an instrumented session make one trace."""
    collected, ctx = Collected(), AgentContext()
    collected.watch(ctx.session)
    settings = InstrumentationSettings(
        tracer_provider=collected.tracers, meter_provider=collected.meters
    )
    agent = Agent(
        scripted([call("greet", "c7", who="Ada")]),
        toolsets=[Toolset(ctx, tools=[Greet])],
        capabilities=[Instrumentation(settings)],
    )

    await agent.run("go")

    traces = {span.context.trace_id for span in collected.spans if span.context is not None}
    ours = [span for span in collected.spans if attributes(span).get("toolcrib.tool.source")]
    assert len(traces) == 1
    assert [attributes(span)["gen_ai.tool.call.id"] for span in ours] == ["c7"]
    assert collected.tree()["execute_tool greet"] == ["execute_tool greet"]


async def test_prompts_on_its_models_have_the_same_spans() -> None:
    """R43: whatever the model, a prompt is told alike."""
    collected, session = Collected(), Session()
    collected.watch(session)

    with models.bench(models.call("add", {"a": 1, "b": 2}), "Three.") as (adapter, _):
        await adapter.evaluate_async(models.ask(models.add), session=session)

    assert collected.tree() == {
        "": ["invoke_agent test:ask"],
        "invoke_agent test:ask": ["chat test-model", "execute_tool add", "chat test-model"],
    }
    assert attributes(collected.span("invoke_agent test:ask"))["gen_ai.provider.name"] == "function"
