"""Spans of prompts, and where they and their calls belong."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.context import get_current
from opentelemetry.trace import SpanKind

from tests.adapters.openai.loopback_adapter import add, ask, bench
from tests.adapters.openai.nested_prompt import (
    ANSWER,
    INNER,
    INNER_CALLS,
    OUTER_CALLS,
    THREE,
    asking,
    outer_prompt,
    pay,
)
from tests.adapters.openai.scripted_provider import call, response
from tests.telemetry.memory_collector import Collected, attributes, is_failed, labels
from toolcrib import (
    Approve,
    EventBus,
    Executor,
    Reply,
    Session,
    tool,
)
from toolcrib.adapters.openai import Governance, OpenAIAdapter
from toolcrib.approval.decision import Actor, ApprovalRequest
from toolcrib.testing import ScriptedOpenAI, calls, says

ASKED = response(call("add", {"a": 1, "b": 2}))
PROMPT = "invoke_agent test:ask"
CHAT = "chat test-model"


@pytest.fixture
def collected() -> Collected:
    return Collected()


async def test_a_prompt_is_a_span_with_its_steps_and_calls(collected: Collected) -> None:
    """R43: calls are beside the steps that asked for them, under the prompt, and the prompt is
    under what the application does.
    """
    session = Session()
    collected.watch(session)
    before = get_current()

    with bench(ASKED, ANSWER) as (adapter, _), collected.tracer.start_as_current_span("request"):
        await adapter.evaluate_async(ask(add), session=session)

    assert get_current() is before
    assert collected.tree() == {
        "": ["request"],
        "request": [PROMPT],
        PROMPT: [CHAT, "execute_tool add", CHAT],
    }


def test_a_blocking_evaluation_joins_the_trace_too(collected: Collected) -> None:
    """R43: the thread that blocking calls use knows what is current where they were made."""
    session = Session()
    collected.watch(session)

    with bench(ASKED, ANSWER) as (adapter, _), collected.tracer.start_as_current_span("request"):
        adapter.evaluate(ask(add), session=session)

    assert collected.tree()["request"] == [PROMPT]


async def test_every_attribute_of_a_prompt(collected: Collected) -> None:
    """R43: the prompt is told as the agent that is invoked."""
    session = Session("s1")
    collected.watch(session)

    with bench(ANSWER) as (adapter, _):
        await adapter.evaluate_async(ask(), session=session)

    span = collected.span(PROMPT)
    assert (span.kind, is_failed(span)) == (SpanKind.INTERNAL, False)
    assert attributes(span) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "test:ask",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "test-model",
        "gen_ai.conversation.id": "s1",
        "toolcrib.turn": 1,
        "toolcrib.prompt.outcome": "completed",
    }


async def test_calls_of_a_prompt_name_it(collected: Collected) -> None:
    """R43: the agent's name is on the spans and in the metrics of the calls that it makes."""
    session = Session()
    collected.watch(session)

    with bench(ASKED, ANSWER) as (adapter, _):
        await adapter.evaluate_async(ask(add), session=session)

    told = labels(tool="add", agent="test:ask")
    assert attributes(collected.span("execute_tool add"))["gen_ai.agent.name"] == "test:ask"
    assert list(collected.durations()) == [told]
    assert collected.counts("toolcrib.calls") == {told: 1}


async def test_prompts_within_calls_are_nested(collected: Collected) -> None:
    """R43: a prompt that a handler evaluates is under the handler's call, with its own steps and
    calls under it.
    """
    session = Session()
    collected.watch(session)
    ask_again, _ = asking()

    with bench(OUTER_CALLS, INNER_CALLS, THREE, ANSWER) as (adapter, _):
        await adapter.evaluate_async(outer_prompt(ask_again), session=session)

    outer, inner = sorted(collected.all(PROMPT), key=lambda span: span.start_time or 0)
    again = collected.span("execute_tool ask_again")
    added = collected.span("execute_tool add")
    parents = {each: each.parent and each.parent.span_id for each in (outer, again, inner, added)}
    assert parents == {
        outer: None,
        again: outer.context and outer.context.span_id,
        inner: again.context and again.context.span_id,
        added: inner.context and inner.context.span_id,
    }
    assert len(collected.all(CHAT)) == 4


async def test_a_prompt_of_an_approver_is_under_the_prompt_it_judges(collected: Collected) -> None:
    """R43: no handler runs then; the approver's prompt is part of the outer one."""
    session = Session()
    collected.watch(session)

    class Judge:
        """Asks a model."""

        adapter: OpenAIAdapter

        async def ask(self, request: ApprovalRequest) -> Reply:
            await self.adapter.evaluate_async(INNER, session=session)
            return Reply(Approve(), Actor("rule", "judge"))

    judge = Judge()
    with bench(response(call("pay")), THREE, ANSWER) as (adapter, _):
        judge.adapter = adapter
        await adapter.evaluate_async(
            outer_prompt(pay), session=session, governance=Governance(approver=judge)
        )

    assert collected.tree()[""] == [PROMPT]
    assert sorted(collected.tree()[PROMPT]) == sorted(
        [PROMPT, CHAT, CHAT, CHAT, "toolcrib.approval.wait", "execute_tool pay"]
    )


async def test_a_bus_that_is_given_to_one_evaluation(collected: Collected) -> None:
    """R43: sessions that forward their events to an instrumented bus are told too."""
    bus = EventBus()
    collected.watch(bus)

    with bench(ASKED, ANSWER) as (adapter, _):
        await adapter.evaluate_async(ask(add), bus=bus)

    assert collected.tree()[PROMPT] == [CHAT, "execute_tool add", CHAT]


async def test_prompts_at_the_same_time_are_told_apart(collected: Collected) -> None:
    """R43: on one bus, each call is under its own prompt."""
    bus = EventBus()
    collected.watch(bus)
    together = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        """Meet."""
        await together.wait()
        return name

    async def one(name: str) -> None:
        model = ScriptedOpenAI([calls("meet", {"name": name}, call_id=name)], [says(name)])
        adapter = OpenAIAdapter(model="m", client=model.client())
        await adapter.evaluate_async(ask(meet, text=name), session=Session(name, bus=bus))

    await asyncio.gather(one("a"), one("b"))

    prompts = {
        span.context.span_id: attributes(span)["gen_ai.conversation.id"]
        for span in collected.all(PROMPT)
        if span.context is not None
    }
    met = {
        attributes(span)["gen_ai.tool.call.id"]: prompts[span.parent.span_id]
        for span in collected.all("execute_tool meet")
        if span.parent is not None
    }
    assert met == {"a": "a", "b": "b"}


async def test_calls_in_a_turn_of_ones_own_are_under_the_prompt_around_it(
    collected: Collected,
) -> None:
    """R43: a turn without a prompt has no span; its calls belong to the prompt that it is in."""
    session = Session()
    collected.watch(session)
    checks = Executor(session, [add])

    class Careful:
        """Counts before it answers."""

        async def ask(self, request: ApprovalRequest) -> Reply:
            with checks.turn():
                await checks.call("add", {"a": 1, "b": 2})
            return Reply(Approve(), Actor("rule", "careful"))

    with bench(response(call("pay")), ANSWER) as (adapter, _):
        await adapter.evaluate_async(
            ask(pay), session=session, governance=Governance(approver=Careful())
        )

    assert "execute_tool add" in collected.tree()[PROMPT]
