"""The loop: requests and calls until there is an answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, call, message, response
from toolcrib import PromptEvaluationError, Session, ToolContext, tool
from toolcrib.adapters.openai import Budget
from toolcrib.host_tools import HostToolDefinition
from toolcrib.ledger.events import ToolInvoked
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.web_search import web_search_tool

ANSWER = response(message("Fine."))


@dataclass
class Sum:
    total: int


def outputs(request: Json) -> list[tuple[str, str]]:
    """The outputs of calls that a request brings."""
    found = [item for item in request["input"] if item["type"] == "function_call_output"]
    return [(item["call_id"], item["output"]) for item in found]


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
    with bench(response(*calls), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(first, second))

    assert outputs(provider.bodies[1]) == [("call_a", "1"), ("call_b", "2")]


def test_calls_of_several_steps_follow_each_other() -> None:
    """The model may call again after it has seen an output."""
    one, two = call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4}, "call_2")
    session = Session()
    with bench(response(one), response(two), ANSWER) as (adapter, provider):
        found = adapter.evaluate(ask(add), session=session)

    assert [outputs(body) for body in provider.bodies] == [[], [("call_1", "3")], [("call_2", "7")]]
    assert (found.text, found.usage.requests, found.usage.total_tokens) == ("Fine.", 3, 45)
    assert [event.value for event in happened(session, ToolInvoked)] == [3, 7]
    assert found.request_ids == ("req_1", "req_2", "req_3")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (call("subtract", {}), "There is no tool named 'subtract'. The tools are: add."),
        (call("add", {"a": 1}), "/b"),
        (call("add", "{not json"), "JSON"),
    ],
    ids=["unknown", "missing", "broken"],
)
def test_a_call_that_cannot_run_is_answered_with_why(asked: Json, told: str) -> None:
    """A call of an unknown tool, or with wrong arguments, is no crash: the model is told."""
    with bench(response(asked), ANSWER) as (adapter, provider):
        found = adapter.evaluate(ask(add))

    ((call_id, output),) = outputs(provider.bodies[1])
    assert (found.text, call_id) == ("Fine.", "call_1")
    assert told in output


def test_a_tool_that_fails_is_told_to_the_model() -> None:
    """A handler's exception is an output with a sentence, and the prompt goes on."""

    @tool
    def fail() -> str:
        """Fail."""
        raise RuntimeError("the disk is full")

    with bench(response(call("fail")), ANSWER) as (adapter, provider):
        found = adapter.evaluate(ask(fail))

    assert found.text == "Fine."
    assert "the disk is full" in outputs(provider.bodies[1])[0][1]


def test_host_tools_with_dots_get_names_that_the_provider_takes() -> None:
    """What a provider cannot take gets a wire name, and calls find their way back."""
    seen: list[Any] = []
    query = HostToolDefinition(
        name="app.query",
        description="Query the database.",
        parameters={"type": "object", "properties": {"sql": {"type": "string"}}},
        handler=lambda input, context: seen.append((context.tool_name, input)),
    )

    with bench(response(call("app_query", {"sql": "select 1"})), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(query), tool_choice="app.query")

    assert [entry["name"] for entry in provider.bodies[0]["tools"]] == ["app_query"]
    assert provider.bodies[0]["tool_choice"] == {"type": "function", "name": "app_query"}
    assert seen == [("app.query", {"sql": "select 1"})]


@pytest.mark.parametrize(
    ("wanted", "first", "later"),
    [
        ("auto", None, None),
        ("none", "none", "none"),
        ("required", "required", None),
        ("add", {"type": "function", "name": "add"}, None),
        ("code_interpreter", {"type": "code_interpreter"}, None),
        (
            "web_search",
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]},
            None,
        ),
    ],
)
def test_a_choice_is_forced_once(wanted: str, first: Any, later: Any) -> None:
    """C19, N18, P15: a choice names ours or the provider's; it is relaxed after the first step, or
    the model could never answer. `none` holds throughout.
    """
    prompt = ask(add, hosted=[code_interpreter_tool(), web_search_tool()])
    asked = call("add", {"a": 1, "b": 2})
    with bench(response(asked), ANSWER) as (adapter, provider):
        adapter.evaluate(prompt, tool_choice=wanted)

    assert [body.get("tool_choice") for body in provider.bodies] == [first, later]


def test_a_choice_works_with_hosted_tools_only() -> None:
    """E8: `required` needs a tool, not one of ours."""
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(ask(hosted=[web_search_tool()]), tool_choice="required")

    assert provider.bodies[0]["tool_choice"] == "required"


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("subtract", "tool_choice names 'subtract', which the prompt does not offer"),
        ("required", "tool_choice is 'required', but no tool is offered"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused_before_any_request(wanted: str, text: str) -> None:
    """C19: a misspelt name is told in phase render."""
    prompt = ask() if wanted == "required" else ask(add)
    with (
        bench() as (adapter, provider),
        pytest.raises(PromptEvaluationError, match=text) as caught,
    ):
        adapter.evaluate(prompt, tool_choice=wanted)

    assert (caught.value.phase, caught.value.prompt_name) == ("render", "test:ask")
    assert provider.requests == []


@pytest.mark.parametrize(
    ("budget", "requests", "text"),
    [
        (Budget(max_steps=2), 2, "takes 2 steps and may take 2"),
        (Budget(max_tokens=30), 2, "takes 30 tokens and may take 30"),
        (Budget(max_calls=2), 3, "takes 3 tool calls and may take 2"),
    ],
    ids=["steps", "tokens", "calls"],
)
def test_a_budget_ends_a_prompt_that_goes_on_and_on(
    budget: Budget, requests: int, text: str
) -> None:
    """E7: steps, tokens over all steps and calls are bounded; what exceeds them is not begun."""
    ran: list[int] = []

    @tool
    def again(n: int) -> int:
        """Call this again."""
        ran.append(n)
        return n

    asking = [response(call("again", {"n": n}, f"call_{n}")) for n in range(9)]
    with (
        bench(*asking) as (adapter, provider),
        pytest.raises(PromptEvaluationError, match=text) as caught,
    ):
        adapter.evaluate(ask(again), budget=budget)

    assert (caught.value.phase, caught.value.prompt_name) == ("budget", "test:ask")
    assert len(provider.requests) == requests
    assert len(ran) == 2


def test_a_budget_that_is_just_enough_is_enough() -> None:
    """The last allowed step may bring the answer, after the last allowed call."""
    budget = Budget(max_steps=2, max_calls=1, max_tokens=16)
    with bench(response(call("add", {"a": 1, "b": 2})), ANSWER) as (adapter, _):
        found = adapter.evaluate(ask(add), budget=budget)

    assert found.text == "Fine."


def test_no_call_of_a_step_runs_when_they_are_too_many() -> None:
    """A step is run as a whole or not at all."""
    ran: list[str] = []

    @tool
    def note(text: str) -> None:
        """Take a note."""
        ran.append(text)

    calls = [call("note", {"text": "x"}, f"call_{n}") for n in range(3)]
    with bench(response(*calls)) as (adapter, _), pytest.raises(PromptEvaluationError):
        adapter.evaluate(ask(note), budget=Budget(max_calls=2))

    assert ran == []


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
        bench(response(call("forever"))) as (adapter, provider),
        pytest.raises(PromptEvaluationError, match="deadline") as caught,
    ):
        adapter.evaluate(ask(forever), session=session, budget=Budget(seconds=0.2))

    (event,) = happened(session, ToolInvoked)
    assert event.failure is not None
    assert (event.failure.kind, caught.value.phase) == ("timeout", "budget")
    assert len(provider.requests) == 1
    assert deadlines != [None]


def test_a_structured_answer_is_typed() -> None:
    """C21: the schema goes with the tools in one request, strict, and the answer is a value."""
    prompt = ask(add, output=Sum, hosted=[code_interpreter_tool()])
    with bench(response(message('{"total": 7}'))) as (adapter, provider):
        found = adapter.evaluate(prompt, settings={"text": {"verbosity": "low"}})

    body = provider.bodies[0]
    assert found.output == Sum(7)
    assert body["text"] == {
        "verbosity": "low",
        "format": {
            "type": "json_schema",
            "name": "Sum",
            "strict": True,
            "schema": {
                "title": "Sum",
                "type": "object",
                "properties": {"total": {"title": "Total", "type": "integer"}},
                "required": ["total"],
                "additionalProperties": False,
            },
        },
    }
    assert [entry["type"] for entry in body["tools"]] == ["function", "code_interpreter"]


def test_remarks_on_the_way_are_no_part_of_the_answer() -> None:
    """Newer models label what is commentary; a typed answer is the last message."""
    remark = message("Let me see.", id="msg_0", phase="commentary")
    answer = message('{"total": 7}', phase="final_answer")
    with bench(response(remark, answer)) as (adapter, _):
        found = adapter.evaluate(ask(output=Sum))

    assert (found.output, found.text) == (Sum(7), '{"total": 7}')


def test_of_several_structured_messages_the_last_counts() -> None:
    """Each message is under the schema, so two of them are two answers and not one text."""
    first = message('{"total": 1}', id="msg_0")
    with bench(response(first, message('{"total": 7}'))) as (adapter, _):
        found = adapter.evaluate(ask(output=Sum))

    assert (found.output, found.text) == (Sum(7), '{"total": 1}{"total": 7}')


def test_a_structured_answer_that_does_not_fit_is_told() -> None:
    """The error is in phase parse, with the request's id, and does not repeat the answer."""
    with (
        bench(response(message('{"total": "secret stuff"}'))) as (adapter, _),
        pytest.raises(PromptEvaluationError, match="/total") as caught,
    ):
        adapter.evaluate(ask(output=Sum), output_retries=0)

    assert (caught.value.phase, caught.value.request_id) == ("parse", "req_1")
    assert "secret stuff" not in str(caught.value)


def test_a_prompt_that_cannot_be_rendered_is_told_before_any_request() -> None:
    """A missing value has phase render."""
    with (
        bench() as (adapter, provider),
        pytest.raises(PromptEvaluationError, match="question") as caught,
    ):
        adapter.evaluate(ask(text="Answer $question"))

    assert (caught.value.phase, provider.requests) == ("render", [])


def test_custom_tools_take_their_text_as_input() -> None:
    """A custom tool call is a call with one argument, answered in its own shape."""

    @tool
    def shout(input: str) -> str:
        """Shout."""
        return input.upper()

    asked = {"type": "custom_tool_call", "call_id": "call_1", "name": "shout", "input": 'he"y'}
    with bench(response(asked), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(shout))

    assert provider.bodies[1]["input"] == [
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": 'HE"Y'}
    ]


def test_who_called_is_said_again_in_the_answer() -> None:
    """A program on the provider finds the answers to its calls by their caller."""
    asked = {**call("add", {"a": 1, "b": 2}), "caller": {"type": "program", "id": "prog_1"}}
    with bench(response(asked), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(add))

    assert provider.bodies[1]["input"][0]["caller"] == {"type": "program", "id": "prog_1"}
