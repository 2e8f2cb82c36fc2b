"""Spans of prompts and of the steps in which a model answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.context import get_current
from opentelemetry.trace import SpanKind

from tests.adapters.openai.bench import add, ask, bench
from tests.adapters.openai.nested import (
    ANSWER,
    INNER,
    INNER_CALLS,
    OUTER_CALLS,
    THREE,
    asking,
    outer_prompt,
    pay,
)
from tests.adapters.openai.provider import Body, Json, call, message, response
from tests.telemetry.collected import Collected, attributes, is_failed, labels, seconds
from toolcrib import (
    Approve,
    EventBus,
    PromptEvaluationError,
    Reply,
    Session,
    ToolContext,
    ToolResult,
    tool,
)
from toolcrib.adapters.openai import Governance, OpenAIAdapter
from toolcrib.approval.decision import Actor
from toolcrib.approval.request import ApprovalRequest
from toolcrib.calls.failure import Failure
from toolcrib.session.events import ModelResponded, ToolInvoked
from toolcrib.testing import FakeClock, ScriptedOpenAI, calls, says
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.openai_code_interpreter import OpenAICodeInterpreterTool
from toolcrib.tools.ref import ToolRef
from toolcrib.tools.web_search import web_search_tool

ASKED = response(call("add", {"a": 1, "b": 2}))
REFUSED = Body({"error": {"message": "no"}}, 400)
PROMPT = "invoke_agent test:ask"
CHAT = "chat test-model"


@pytest.fixture
def collected() -> Collected:
    return Collected()


def searched(number: int, **fields: Any) -> Json:
    item = {"type": "web_search_call", "id": f"ws_{number}", "status": "completed"}
    return {**item, "action": {"type": "search", "query": f"query {number}"}, **fields}


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


async def test_every_attribute_of_a_step(collected: Collected) -> None:
    """R43: models, ids and tokens of one request."""
    session = Session("s1")
    collected.watch(session)
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 3},
    }

    with bench(response(message("Fine."), model="test-model-2", usage=usage)) as (adapter, _):
        await adapter.evaluate_async(ask(), session=session)

    span = collected.span(CHAT)
    assert (span.kind, is_failed(span), span.events) == (SpanKind.CLIENT, False, ())
    assert attributes(span) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "test-model",
        "gen_ai.response.model": "test-model-2",
        "gen_ai.response.id": "resp_msg_1",
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 3,
        "toolcrib.turn": 1,
        "toolcrib.step": 1,
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


async def test_a_step_begins_when_the_calls_before_it_are_over(collected: Collected) -> None:
    """R43: what tools take is no part of a model's time."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)

    @tool
    async def work() -> str:
        """Work."""
        clock.advance(7.0)
        return "done"

    with bench(response(call("work")), ANSWER) as (adapter, _):
        await adapter.evaluate_async(ask(work), session=session)

    assert [seconds(span) for span in collected.all(CHAT)] == [(1_000.0, 0.0), (1_007.0, 0.0)]
    assert seconds(collected.span("execute_tool work")) == (1_000.0, 7.0)
    assert seconds(collected.span(PROMPT)) == (1_000.0, 7.0)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_provider_run_calls_are_events_of_their_step(
    collected: Collected, is_streamed: bool
) -> None:
    """R43, N3: nobody measured them, so they are no spans; they are on the step that they were
    made in, in order, with the attributes of a call.
    """
    session = Session("s1")
    collected.watch(session)
    first = response(searched(1), searched(2), call("add", {"a": 1, "b": 2}))
    second = response(searched(3), message("Fine."))

    with bench(first, second) as (adapter, _):
        prompt = ask(add, hosted=[web_search_tool()])
        await adapter.evaluate_async(prompt, session=session, stream=is_streamed)

    steps = [[event for event in span.events] for span in collected.all(CHAT)]
    assert [[(e.attributes or {})["gen_ai.tool.call.id"] for e in step] for step in steps] == [
        ["ws_1", "ws_2"],
        ["ws_3"],
    ]
    event = steps[0][0]
    assert event.name == "toolcrib.provider_call"
    assert dict(event.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "web_search",
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.call.id": "ws_1",
        "gen_ai.agent.name": "test:ask",
        "gen_ai.conversation.id": "s1",
        "gen_ai.provider.name": "openai",
        "toolcrib.tool.place": "provider",
    }
    assert collected.names.count("execute_tool web_search") == 0
    told = labels(tool="web_search", type="extension", agent="test:ask")
    assert collected.counts("toolcrib.calls")[told] == 3
    assert told not in collected.durations()


async def test_a_search_in_the_providers_files_is_an_access_to_data(collected: Collected) -> None:
    """R43: `datastore` is the type of file search, whatever the tool is called."""
    session = Session()
    collected.watch(session)
    found = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"]}
    tool = file_search_tool(FileSearchConfig(vector_store_ids=("vs_1",)), name="handbook")

    with bench(response({**found, "results": []}, message("Fine."))) as (adapter, _):
        await adapter.evaluate_async(ask(hosted=[tool]), session=session)

    (event,) = collected.span(CHAT).events
    assert (event.attributes or {})["gen_ai.tool.type"] == "datastore"
    assert (event.attributes or {})["gen_ai.tool.name"] == "handbook"


async def test_a_provider_run_call_that_failed(collected: Collected) -> None:
    """R43: its event has the kind of failure, and it counts as an error."""
    session = Session()
    collected.watch(session)

    with bench(response(searched(1, status="failed"), message("Fine."))) as (adapter, _):
        await adapter.evaluate_async(ask(hosted=[web_search_tool()]), session=session)

    (event,) = collected.span(CHAT).events
    assert (event.attributes or {})["error.type"] == "provider_error"
    assert not is_failed(collected.span(CHAT))
    told = labels(tool="web_search", type="extension", agent="test:ask", error="provider_error")
    assert collected.counts("toolcrib.call.errors") == {told: 1}


def test_a_hook_on_a_providers_output_does_not_end_the_step(collected: Collected) -> None:
    """R43: it may evaluate a prompt before the provider's call is recorded; that prompt is under
    the outer one, and the call is still an event of its own step.
    """
    session = Session()
    collected.watch(session)

    def hook(result: Any, context: ToolContext) -> Any:
        return ToolResult(value=result, message=context.adapter.evaluate(INNER).text)

    ran: Json = {"type": "code_interpreter_call", "id": "ci_1", "status": "completed"}
    ran |= {"code": "1", "container_id": "c", "outputs": [{"type": "logs", "logs": "1"}]}
    python = OpenAICodeInterpreterTool(name="python", handle_provider_output=hook)

    with bench(response(ran, message("Two.")), INNER_CALLS, THREE) as (adapter, _):
        adapter.evaluate(outer_prompt(python), session=session)

    with_events = [span for span in collected.all(CHAT) if span.events]
    assert [attributes(span)["toolcrib.turn"] for span in with_events] == [1]
    assert collected.tree()[""] == [PROMPT]
    under = sorted(collected.tree()[PROMPT])
    assert under == [CHAT, CHAT, CHAT, "execute_tool add", PROMPT]


async def test_a_provider_that_tells_times_gets_spans(collected: Collected) -> None:
    """R43: where the time of a provider-run call is known it is a span under its step, and it is
    measured.
    """
    session = Session("s1", clock=FakeClock(1_000.0))
    collected.watch(session)
    ref = ToolRef("web_search", "acme", "1", "d", "provider")

    @tool
    async def relay() -> str:
        """Tell of a provider that tells times."""
        failure = Failure("provider_error", "broken")
        facts: dict[str, Any] = {"session_id": "s1", "at": 1_000.0}
        responded: dict[str, Any] = {"response_id": None, "request_id": None, "model": None}
        session.announce(
            ModelResponded(
                **facts, **responded, turn=1, step=1, status="completed", items=[], usage={}
            )
        )
        for number, problem in enumerate((None, failure)):
            session.announce(
                ToolInvoked(
                    **facts,
                    call_id=f"ws_{number}",
                    name="web_search",
                    params=None,
                    message="",
                    success=problem is None,
                    failure=problem,
                    tool=ref,
                    origin="provider",
                    duration_seconds=2.5,
                )
            )
        return "told"

    with bench(response(call("relay")), ANSWER) as (adapter, _):
        await adapter.evaluate_async(ask(relay), session=session)

    first, second = collected.all("execute_tool web_search")
    assert seconds(first) == (997.5, 2.5)
    assert (is_failed(first), is_failed(second)) == (False, True)
    assert collected.tree()[CHAT] == ["execute_tool web_search"] * 2
    told = labels(tool="web_search", type="extension", agent="test:ask")
    assert collected.durations()[told] == [1, 2.5]


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


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (response(message("So"), status="incomplete"), "incomplete"),
        (response(status="failed", error={"code": "server_error", "message": "x"}), "failed"),
    ],
)
def test_a_step_from_which_nothing_follows(collected: Collected, status: Json, kind: str) -> None:
    """R43: the step failed, and the prompt with it; both say why in one word."""
    session = Session()
    collected.watch(session)

    with bench(status, status, status) as (adapter, _), pytest.raises(PromptEvaluationError):
        adapter.evaluate(ask(), session=session)

    span = collected.all(CHAT)[-1]
    assert (is_failed(span), attributes(span)["error.type"]) == (True, kind)
    prompt = collected.span(PROMPT)
    assert (is_failed(prompt), attributes(prompt)["error.type"]) == (True, kind)
    assert attributes(prompt)["toolcrib.prompt.outcome"] == "failed"


def test_a_request_that_was_never_answered(collected: Collected) -> None:
    """R43: the prompt's span ends as failed when its task is done, though no event says so."""
    session = Session()
    collected.watch(session)

    with bench(REFUSED) as (adapter, _), pytest.raises(PromptEvaluationError):
        adapter.evaluate(ask(), session=session)

    assert collected.names == [PROMPT]
    assert attributes(collected.span(PROMPT))["error.type"] == "_OTHER"


async def test_a_failed_prompt_of_a_long_task_ends_with_the_next(collected: Collected) -> None:
    """R43: a task that goes on after a prompt failed keeps nothing open, and no context."""
    session = Session()
    collected.watch(session)
    before = get_current()

    with bench(REFUSED, ANSWER) as (adapter, _):
        with pytest.raises(PromptEvaluationError):
            await adapter.evaluate_async(ask(), session=session)
        assert get_current() is before
        assert collected.names == []
        await adapter.evaluate_async(ask(), session=session)

    assert [is_failed(span) for span in collected.all(PROMPT)] == [True, False]


async def test_closing_ends_what_failed_last(collected: Collected) -> None:
    """R43: nothing is lost when the program ends with a prompt that failed."""
    session = Session()

    with bench(REFUSED) as (adapter, _), collected.watch(session):
        with pytest.raises(PromptEvaluationError):
            await adapter.evaluate_async(ask(), session=session)
        assert collected.spans == []

    assert is_failed(collected.span(PROMPT))


def test_a_prompt_that_waits_goes_on_elsewhere(collected: Collected) -> None:
    """R43: the prompt's span ends when its calls wait, which is no failure; what is resumed is
    under whoever resumes it.
    """
    session = Session()
    collected.watch(session)
    prompt = ask(pay)

    with bench(response(call("pay")), ANSWER) as (adapter, _):
        assert adapter.evaluate(prompt, session=session).status == "waiting"
        waited = collected.span(PROMPT)
        assert collected.names == [CHAT, PROMPT]
        asyncio.run(session.approvals.decide("call_1", Approve(), by="jo"))
        with collected.tracer.start_as_current_span("resumed"):
            adapter.resume(prompt, session=session)

    assert not is_failed(waited)
    assert attributes(waited)["toolcrib.prompt.outcome"] == "waiting"
    assert collected.tree()["resumed"] == ["toolcrib.approval.wait", "execute_tool pay", CHAT]
    assert len(collected.all(PROMPT)) == 1


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
