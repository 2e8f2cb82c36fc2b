"""One prompt on every provider, through its real SDK: calls, choices, failures, names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, GOOGLE, SPEECHES
from tests.adapters.pydantic_ai.scripted_adapter import add, ask, happened, wire_bench
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import PromptResponse, Session, ToolInvoked, tool
from toolcrib.adapters.items import mapping_of
from toolcrib.host_tools import HostToolDefinition
from toolcrib.ledger.prompt_events import ModelResponded

every = pytest.mark.parametrize("provider", SPEECHES)
both = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])


@both
@every
def test_calls_run_side_by_side_and_are_answered_in_order(provider: str, stream: bool) -> None:
    """Parallel calls do not wait for each other, and their outputs keep the model's order."""
    speech = SPEECHES[provider]
    second_ran = asyncio.Event()

    @tool
    async def first(n: int) -> str:
        """Wait for the second."""
        await second_ran.wait()
        return f"first {n}"

    @tool
    async def second() -> str:
        """Let the first go on."""
        second_ran.set()
        return "second"

    calls = [speech.call("first", {"n": 1}, "call_a"), speech.call("second", {}, "call_b")]
    with wire_bench(speech, speech.calls(*calls), speech.says("Fine.")) as (adapter, server):
        found: PromptResponse[Any] = adapter.evaluate(ask(first, second), stream=stream)

    assert speech.outputs(server.bodies[1]) == ["first 1", "second"]
    assert (found.text, found.status, found.usage.requests) == ("Fine.", "completed", 2)


def forced(provider: str, body: Json) -> Any:
    """Which choice a request makes: a word, or the names of tools."""
    choice = body.get("tool_choice")
    match provider:
        case "google":
            config = mapping_of(mapping_of(body, "toolConfig"), "functionCallingConfig")
            return config.get("allowedFunctionNames") or config.get("mode")
        case "anthropic":
            told = mapping_of(body, "tool_choice")
            return told.get("name") or told.get("type", "auto")
        case _:
            return choice or "auto"


@pytest.mark.parametrize(
    ("provider", "required", "named", "none"),
    [
        ("anthropic", "any", "add", "none"),
        ("google", "ANY", ["add"], "NONE"),
        ("groq", "required", {"type": "function", "function": {"name": "add"}}, "none"),
        ("openai-chat", "required", {"type": "function", "function": {"name": "add"}}, "none"),
        ("openai-responses", "required", {"type": "function", "name": "add"}, "none"),
    ],
)
def test_a_choice_reaches_the_provider_and_is_forced_once(
    provider: str, required: Any, named: Any, none: Any
) -> None:
    """C19, N18, P15: in each provider's own words, in the first request only; `none` holds."""
    speech = SPEECHES[provider]

    @tool
    def other() -> str:
        """Do something else."""
        return ""

    sent: dict[str, list[Any]] = {}
    for wanted in ("required", "add", "none", "auto"):
        steps = [speech.calls(speech.call("add", {"a": 1, "b": 2})), speech.says("Fine.")]
        with wire_bench(speech, *steps) as (adapter, server):
            adapter.evaluate(ask(add, other), tool_choice=wanted)
        sent[wanted] = [forced(provider, body) for body in server.bodies]

    free, _ = sent["auto"]
    assert free in ("auto", "VALIDATED")
    assert sent == {
        "required": [required, free],
        "add": [named, free],
        "none": [none, none],
        "auto": [free, free],
    }


@every
def test_no_tools_are_at_hand_when_none_may_be_used(provider: str) -> None:
    """N18: `none` is said to the provider, or the tools are left out."""
    speech = SPEECHES[provider]
    with wire_bench(speech, speech.says("Fine.")) as (adapter, server):
        adapter.evaluate(ask(add), tool_choice="none")

    (body,) = server.bodies
    assert forced(provider, body) in ("none", "NONE") or not body.get("tools")


@every
def test_a_call_that_cannot_run_is_answered_with_why(provider: str) -> None:
    """A call of an unknown tool is no crash: the model is told, and goes on."""
    speech = SPEECHES[provider]
    session = Session()
    asked = speech.calls(speech.call("subtract", {"a": 1}))
    with wire_bench(speech, asked, speech.says("Fine.")) as (adapter, server):
        found = adapter.evaluate(ask(add), session=session)

    (event,) = happened(session, ToolInvoked)
    (output,) = speech.outputs(server.bodies[1])
    assert "There is no tool named 'subtract'. The tools are: add." in output
    assert event.failure is not None
    assert (found.text, event.failure.kind) == ("Fine.", "not_found")


def test_a_failure_is_told_as_one_where_the_provider_has_a_word_for_it() -> None:
    """The model need not guess from a sentence whether its call failed."""

    @tool
    def fail() -> str:
        """Fail."""
        raise RuntimeError("the disk is full")

    steps = [ANTHROPIC.calls(ANTHROPIC.call("fail", {})), ANTHROPIC.says("Fine.")]
    with wire_bench(ANTHROPIC, *steps) as (adapter, server):
        adapter.evaluate(ask(fail))

    (result,) = server.bodies[1]["messages"][-1]["content"]
    assert result["is_error"] is True
    assert "the disk is full" in str(result["content"])


@every
def test_names_that_a_provider_cannot_take_get_others(provider: str) -> None:
    """What a provider cannot take gets a wire name, and calls find their way back."""
    speech = SPEECHES[provider]
    seen: list[Any] = []
    query = HostToolDefinition(
        name="app.query",
        description="Query the database.",
        parameters={"type": "object", "properties": {"sql": {"type": "string"}}},
        handler=lambda input, context: seen.append((context.tool_name, input)),
    )
    asked = speech.calls(speech.call("app_query", {"sql": "select 1"}))
    with wire_bench(speech, asked, speech.says("Fine.")) as (adapter, server):
        adapter.evaluate(ask(query))

    sent = str(server.bodies[0]["tools"])
    assert "app_query" in sent
    assert "app.query" not in sent
    assert seen == [("app.query", {"sql": "select 1"})]


@every
def test_settings_reach_the_provider(provider: str) -> None:
    """What the caller sets is in every request, in the provider's own words."""
    speech = SPEECHES[provider]
    steps = [speech.calls(speech.call("add", {"a": 1, "b": 2})), speech.says("Fine.")]
    with wire_bench(speech, *steps) as (adapter, server):
        adapter.evaluate(ask(add), settings={"max_tokens": 77})

    for body in server.bodies:
        assert 77 in [*body.values(), *mapping_of(body, "generationConfig").values()]


def test_calls_without_ids_are_told_apart() -> None:
    """Gemini need not name its calls: two of one tool are two calls, also in the ledger."""
    parts = [{"functionCall": {"name": "add", "args": {"a": n, "b": n}}} for n in (1, 2)]
    session = Session()
    with wire_bench(GOOGLE, GOOGLE.answer(*parts), GOOGLE.says("Fine.")) as (adapter, server):
        adapter.evaluate(ask(add), session=session)

    events = happened(session, ToolInvoked)
    assert GOOGLE.outputs(server.bodies[1]) == ["2", "4"]
    assert [event.value for event in events] == [2, 4]
    assert len({event.call_id for event in events}) == 2


@every
def test_prompts_in_one_session_do_not_see_each_other(provider: str) -> None:
    """Each evaluation is a conversation of its own."""
    speech = SPEECHES[provider]
    session = Session()
    with wire_bench(speech, *[speech.says("Fine.")] * 2) as (adapter, server):
        adapter.evaluate(ask(), session=session)
        adapter.evaluate(ask(), session=session)

    assert server.bodies[0] == server.bodies[1]
    assert [event.turn for event in happened(session, ModelResponded)] == [1, 2]


def test_parts_of_next_year_do_not_break_a_prompt() -> None:
    """E2, E4: a block that nobody knows is counted, and the answer is given out."""
    strange: Json = {"type": "dream", "sheep": [1, 2]}
    answer = ANTHROPIC.answer(strange, {"type": "text", "text": "Fine."})
    with wire_bench(ANTHROPIC, answer) as (adapter, _):
        found = adapter.evaluate(ask())

    assert (found.text, found.skipped) == ("Fine.", {"dream": 1})
