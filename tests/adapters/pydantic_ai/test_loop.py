"""The loop on a model of pydantic-ai: requests and calls until there is an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.test import TestModel

from tests.adapters.pydantic_ai.scripted_adapter import add, ask, bench, call, happened
from toolcrib import PromptEvaluationError, Session, ToolContext, tool
from toolcrib.adapters.options import Budget
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.host_tools import HostToolDefinition
from toolcrib.ledger.events import ToolInvoked
from toolcrib.tools.web_search import web_search_tool


def test_calls_of_one_step_run_at_once_and_are_answered_in_order() -> None:
    """Parallel calls do not wait for each other, and their outputs keep the model's order."""
    second_ran = asyncio.Event()

    @tool
    async def first() -> str:
        """Wait for the second."""
        await second_ran.wait()
        return "1"

    @tool
    async def second() -> str:
        """Let the first go on."""
        second_ran.set()
        return "2"

    calls = [call("first", call_id="call_a"), call("second", call_id="call_b")]
    with bench(calls, "Fine.") as (adapter, script):
        adapter.evaluate(ask(first, second))

    assert script.outputs() == [("call_a", "1"), ("call_b", "2")]


def test_calls_of_several_steps_follow_each_other() -> None:
    """The model may call again after it has seen an output; the whole history goes with it."""
    session = Session()
    one, two = call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4}, "call_2")
    with bench(one, two, "Fine.") as (adapter, script):
        found = adapter.evaluate(ask(add), session=session)

    assert [len(messages) for messages in script.asked] == [1, 3, 5]
    assert [script.outputs(1), script.outputs(2)] == [[("call_1", "3")], [("call_2", "7")]]
    assert (found.text, found.usage.requests, found.model) == ("Fine.", 3, "test-model")
    assert [event.value for event in happened(session, ToolInvoked)] == [3, 7]


@pytest.mark.parametrize("arguments", [{}, None, "", "{}"], ids=["empty", "none", "text", "json"])
def test_a_call_needs_no_arguments(arguments: Any) -> None:
    """A tool without parameters is called with nothing at all, and that is a call."""
    ran: list[str] = []

    @tool
    def look() -> str:
        """Look around."""
        ran.append("looked")
        return "seen"

    with bench(ToolCallPart("look", arguments, "call_1"), "Fine.") as (adapter, _):
        adapter.evaluate(ask(look))

    assert ran == ["looked"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (call("subtract", {}), "There is no tool named 'subtract'. The tools are: add."),
        (call("add", {"a": 1}), "/b"),
        (call("add", "{not json"), "JSON"),
    ],
    ids=["unknown", "missing", "broken"],
)
def test_a_call_that_cannot_run_is_answered_with_why(asked: ToolCallPart, told: str) -> None:
    """A call of an unknown tool, or with wrong arguments, is no crash: the model is told, as a
    failure.
    """
    with bench(asked, "Fine.") as (adapter, script):
        found = adapter.evaluate(ask(add))

    (part,) = script.last
    assert isinstance(part, ToolReturnPart)
    assert (found.text, part.tool_call_id, part.outcome) == ("Fine.", "call_1", "failed")
    assert told in str(part.content)


def test_host_tools_with_dots_get_names_that_the_provider_takes() -> None:
    """What a provider cannot take gets a wire name, and calls find their way back."""
    seen: list[Any] = []
    query = HostToolDefinition(
        name="app.query",
        description="Query the database.",
        parameters={"type": "object", "properties": {"sql": {"type": "string"}}},
        handler=lambda input, context: seen.append((context.tool_name, input)),
    )
    with bench(call("app_query", {"sql": "select 1"}), "Fine.") as (adapter, script):
        adapter.evaluate(ask(query), tool_choice="app.query")

    info = script.infos[0]
    assert [each.name for each in info.function_tools] == ["app_query"]
    assert (info.model_settings or {}).get("tool_choice") == ["app_query"]
    assert script.last[0].tool_name == "app_query"
    assert seen == [("app.query", {"sql": "select 1"})]


@pytest.mark.parametrize(
    ("wanted", "first", "later"),
    [
        ("auto", None, None),
        ("none", "none", "none"),
        ("required", "required", None),
        ("add", ["add"], None),
    ],
)
def test_a_choice_is_forced_once(wanted: str, first: Any, later: Any) -> None:
    """C19, N18, P15: a choice is relaxed after the first step, or the model could never answer.
    `none` holds throughout.
    """
    with bench(call("add", {"a": 1, "b": 2}), "Fine.") as (adapter, script):
        adapter.evaluate(ask(add), tool_choice=wanted)

    settings = [info.model_settings or {} for info in script.infos]
    assert [each.get("tool_choice") for each in settings] == [first, later]


def test_no_tool_means_no_tool_of_the_providers_either() -> None:
    """N18: nobody can hold a provider back from a tool that it was given."""
    with bench("Fine.", provider="anthropic") as (adapter, script):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), tool_choice="none")

    assert script.infos[0].model_request_parameters.native_tools == []


@pytest.mark.parametrize(
    ("wanted", "tools", "hosted", "text"),
    [
        ("subtract", [add], [], "tool_choice names 'subtract', which the prompt does not offer"),
        ("required", [], [], "tool_choice is 'required', but no tool is offered"),
        ("required", [], [web_search_tool()], "can be made to use a hosted tool"),
        ("web_search", [add], [web_search_tool()], "can be made to use a hosted tool"),
    ],
    ids=["unknown", "nothing", "hosted_only", "hosted"],
)
def test_a_choice_that_cannot_be_made_is_refused_before_any_request(
    wanted: str, tools: list[Any], hosted: list[Any], text: str
) -> None:
    """C19: a misspelt name, and a tool of the provider's that cannot be forced, are told in phase
    render.
    """
    with (
        bench(provider="anthropic") as (adapter, script),
        pytest.raises(PromptEvaluationError, match=text) as caught,
    ):
        adapter.evaluate(ask(*tools, hosted=hosted), tool_choice=wanted)

    assert (caught.value.phase, caught.value.prompt_name) == ("render", "test:ask")
    assert script.asked == []


@pytest.mark.parametrize(
    ("budget", "requests", "text"),
    [
        (Budget(max_steps=2), 2, "takes 2 steps and may take 2"),
        (Budget(max_tokens=1), 1, "tokens and may take 1"),
        (Budget(max_calls=2), 3, "takes 3 tool calls and may take 2"),
    ],
    ids=["steps", "tokens", "calls"],
)
def test_a_budget_ends_a_prompt_that_goes_on_and_on(
    budget: Budget, requests: int, text: str
) -> None:
    """E7: steps, tokens over all steps and calls are bounded; what exceeds them is not begun."""

    @tool
    def again(n: int) -> int:
        """Call this again."""
        return n

    with (
        bench(*(call("again", {"n": n}, f"call_{n}") for n in range(9))) as (adapter, script),
        pytest.raises(PromptEvaluationError, match=text) as caught,
    ):
        adapter.evaluate(ask(again), budget=budget)

    assert (caught.value.phase, caught.value.prompt_name) == ("budget", "test:ask")
    assert len(script.asked) == requests


def test_the_seconds_of_a_budget_end_a_tool_too() -> None:
    """A handler knows the prompt's deadline and does not outlive it."""
    deadlines: list[float | None] = []

    @tool
    async def forever(ctx: ToolContext) -> str:
        """Never return."""
        deadlines.append(ctx.deadline)
        await asyncio.Event().wait()
        return ""

    session = Session()
    with (
        bench(call("forever"), "Fine.") as (adapter, script),
        pytest.raises(PromptEvaluationError, match="deadline") as caught,
    ):
        adapter.evaluate(ask(forever), session=session, budget=Budget(seconds=0.2))

    (event,) = happened(session, ToolInvoked)
    assert event.failure is not None
    assert (event.failure.kind, caught.value.phase) == ("timeout", "budget")
    assert len(script.asked) == 1
    assert deadlines != [None]


@pytest.mark.parametrize(
    "call_ids",
    [["call_1", "call_1"], ["call_1", ""], ["call_1", "call\n2"], ["call_1", "c" * 300]],
    ids=["twice", "none", "unprintable", "long"],
)
def test_calls_that_cannot_be_told_apart_are_not_run(call_ids: list[str]) -> None:
    """A call without an id that can be kept could not be answered; nothing of the step runs."""
    ran: list[str] = []

    @tool
    def note(text: str) -> None:
        """Take a note."""
        ran.append(text)

    calls = [call("note", {"text": call_id}, call_id) for call_id in call_ids]
    answer = ModelResponse([*calls], provider_response_id="resp_1")
    with (
        bench(answer) as (adapter, _),
        pytest.raises(PromptEvaluationError, match="cannot be answered") as caught,
    ):
        adapter.evaluate(ask(note))

    assert (caught.value.phase, caught.value.request_id) == ("response", "resp_1")
    assert ran == []


def test_text_and_calls_may_come_together() -> None:
    """What a model says on the way to a call is not part of the answer."""
    step = [TextPart("Let me add."), call("add", {"a": 1, "b": 2})]
    with bench(step, "Three.") as (adapter, _):
        found = adapter.evaluate(ask(add))

    assert (found.text, found.output) == ("Three.", "Three.")


def test_any_model_of_the_library_will_do() -> None:
    """A name, or a model of any kind: pydantic-ai's own test model calls every tool once."""
    session = Session()
    for model in ("test", TestModel(call_tools=["add"])):
        adapter = PydanticAIAdapter(model)
        found = adapter.evaluate(ask(add), session=session)
        adapter.close()

        assert (found.status, found.prompt_name, found.model) == ("completed", "test:ask", "test")
    assert [event.value for event in happened(session, ToolInvoked)] == [0, 0]
