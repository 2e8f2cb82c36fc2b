"""What the ledger, the bus and the transcript tell of an evaluation on any model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from pydantic_ai.messages import ModelMessage, NativeToolCallPart, NativeToolReturnPart, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, SPEECHES
from tests.adapters.pydantic_ai.scripted_adapter import add, ask, bench, call, happened, wire_bench
from tests.adapters.pydantic_ai.wire.traffic import Json
from tests.helpers.patience import PATIENCE
from toolcrib import EventBus, Secret, Session, ToolInvoked, tool
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.ledger.prompt_events import (
    ArgumentsDelta,
    HostedToolProgress,
    ModelResponded,
    PromptAnswered,
    PromptStarted,
    TextDelta,
)
from toolcrib.testing import Recorder
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.web_search import WebSearchResult, web_search_tool

every = pytest.mark.parametrize("provider", SPEECHES)
both = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])


def searched(number: int, *, error: str | None = None) -> list[Json]:
    """A search as Anthropic tells of it: the call, and its result."""
    key = f"srvtoolu_{number}"
    found: Any = [
        {
            "type": "web_search_result",
            "url": f"https://e.org/{number}",
            "title": "E",
            "encrypted_content": "gAAA",
            "page_age": None,
        }
    ]
    if error is not None:
        found = {"type": "web_search_tool_result_error", "error_code": error}
    return [
        {
            "type": "server_tool_use",
            "id": key,
            "name": "web_search",
            "input": {"query": f"query {number}"},
        },
        {"type": "web_search_tool_result", "tool_use_id": key, "content": found},
    ]


def two_steps() -> list[Json]:
    """A search and a call of ours, then another search and the answer."""
    asked = ANTHROPIC.call("add", {"a": 1, "b": 2})
    text = {"type": "text", "text": "It is fine."}
    return [
        ANTHROPIC.answer(*searched(1), asked, stop="tool_use"),
        ANTHROPIC.answer(*searched(2), text),
    ]


@both
def test_provider_run_calls_are_events_like_any_other(stream: bool) -> None:
    """N3, N16, N19, N21, N22, N24, N25: one shape for all calls; origin, provider and capability
    say where it ran, and are empty or `local` for ours.
    """
    session = Session()
    with wire_bench(ANTHROPIC, *two_steps()) as (adapter, _):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), session=session, stream=stream)

    events = happened(session, ToolInvoked)
    assert [(e.name, e.origin, e.provider, e.capability) for e in events] == [
        ("web_search", "provider", "anthropic", "web_search"),
        ("add", "local", None, None),
        ("web_search", "provider", "anthropic", "web_search"),
    ]
    assert [e.call_id for e in events] == ["srvtoolu_1", "call_1", "srvtoolu_2"]
    assert events[0].params == {
        "action": "search",
        "queries": ["query 1"],
        "url": None,
        "pattern": None,
    }
    assert events[0].raw is not None
    assert events[0].raw["answer"]["content"][0]["encrypted_content"] == "gAAA"
    assert all(event.success for event in events)


def test_subscribers_get_the_typed_value() -> None:
    """N2, N21, H33: in this process the value is what the codec made of it."""
    session = Session()
    recorder = Recorder(session.bus)
    with wire_bench(ANTHROPIC, two_steps()[1]) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[web_search_tool()]), session=session)

    (event,) = recorder.of(ToolInvoked)
    assert isinstance(event.value, WebSearchResult)
    assert isinstance(found.hosted_outputs["web_search"], WebSearchResult)
    assert event.value.source_urls == ("https://e.org/2",)


def test_everything_is_in_the_ledger_in_the_order_it_happened() -> None:
    """N20, N26: the request's answer, the provider's calls, ours, the next answer, the end."""
    session = Session()
    with wire_bench(ANTHROPIC, *two_steps()) as (adapter, _):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), session=session)

    assert [record.kind for record in session.records()] == [
        "session.opened",
        "turn.started",
        "prompt.started",
        "model.responded",
        "tool.invoked",
        "call.started",
        "tool.invoked",
        "model.responded",
        "tool.invoked",
        "prompt.answered",
    ]
    assert session.verify() is not None


def test_a_failed_provider_call_is_a_failed_event() -> None:
    """N17, H44: a failure inside a response that is itself a success has the provider's code and a
    kind that programs can read; the prompt goes on.
    """
    session = Session()
    text = {"type": "text", "text": "I could not search."}
    answer = ANTHROPIC.answer(*searched(1, error="max_uses_exceeded"), text)
    with wire_bench(ANTHROPIC, answer) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[web_search_tool()]), session=session)

    (event,) = happened(session, ToolInvoked)
    assert event.failure is not None
    assert (event.success, event.failure.kind) == (False, "provider_error")
    assert (event.value["status"], event.value["error"]) == ("failed", event.failure.message)
    assert "max_uses_exceeded" in event.failure.message
    assert found.text == "I could not search."


def test_the_transcript_and_reducers_have_provider_run_calls() -> None:
    """N23: rendered output and payload stand beside those of our own tools, wherever they ran."""
    session = Session()
    session.add_reducer("calls", ToolInvoked, lambda count, event: count + 1, 0)
    with wire_bench(ANTHROPIC, *two_steps()) as (adapter, _):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), session=session)

    entries = session.transcript()
    assert [(e.tool, e.what, e.origin) for e in entries] == [
        ("web_search", "completed", "provider"),
        ("add", "completed", "local"),
        ("web_search", "completed", "provider"),
    ]
    assert entries[0].text == "search: query 1\nhttps://e.org/1"
    assert session.state("calls") == 3


@every
def test_the_ledger_keeps_what_was_asked_and_what_it_cost(provider: str) -> None:
    """C37: provider, model, tokens and the response's id are kept of every step."""
    speech = SPEECHES[provider]
    session = Session()
    steps = [speech.calls(speech.call("add", {"a": 1, "b": 2})), speech.says("Fine.")]
    with wire_bench(speech, *steps) as (adapter, _):
        found = adapter.evaluate(ask(add), session=session)

    (begun,) = happened(session, PromptStarted)
    first, second = happened(session, ModelResponded)
    assert (begun.adapter, begun.prompt_name) == (provider, "test:ask")
    assert begun.model == adapter.model
    assert (first.usage["input_tokens"], first.usage["output_tokens"]) == (10, 5)
    assert (first.step, second.step, second.turn) == (1, 2, 1)
    assert second.response_id is not None
    assert found.request_ids[-1] == second.response_id
    assert (found.usage.requests, found.usage.total_tokens) == (2, 30)


@every
def test_streamed_and_blocking_evaluations_come_to_the_same(provider: str) -> None:
    """C38: how an answer travels changes nothing about it."""
    speech = SPEECHES[provider]
    steps = [speech.calls(speech.call("add", {"a": 1, "b": 2})), speech.says("It is fine.")]
    found: list[Any] = []
    for stream in (False, True):
        with wire_bench(speech, *steps) as (adapter, server):
            found.append(adapter.evaluate(ask(add), stream=stream))
            assert {each.is_streamed for each in server.requests} == {stream}

    assert found[0] == found[1]


def test_calls_of_the_providers_come_to_the_same_however_they_travel() -> None:
    """C38, N26: also what the provider ran, and what it found, to the letter."""
    found: list[Any] = []
    for stream in (False, True):
        with wire_bench(ANTHROPIC, *two_steps()) as (adapter, _):
            prompt = ask(add, hosted=[web_search_tool()])
            found.append(adapter.evaluate(prompt, stream=stream))

    assert found[0] == found[1]
    assert len(found[0].invocations) == 2


@every
def test_the_text_is_heard_as_it_comes(provider: str) -> None:
    """C38: pieces of the answer are on the bus; the ledger has the whole."""
    speech = SPEECHES[provider]
    session = Session()
    recorder = Recorder(session.bus)
    with wire_bench(speech, speech.says("It is fine.")) as (adapter, _):
        found = adapter.evaluate(ask(), session=session, stream=True)

    pieces = recorder.of(TextDelta)
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == found.text == "It is fine."
    assert {(piece.turn, piece.step) for piece in pieces} == {(1, 1)}
    assert "model.text_delta" not in [record.kind for record in session.records()]


async def test_a_piece_is_heard_before_the_next_is_there() -> None:
    """C38: nothing is kept back until the end: the model waits here until it was heard."""
    heard = asyncio.Event()

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield "It is "
        await heard.wait()
        yield "fine."

    session = Session()
    session.bus.subscribe(TextDelta, lambda _: heard.set())
    adapter = PydanticAIAdapter(FunctionModel(stream_function=stream))
    found = await asyncio.wait_for(
        adapter.evaluate_async(ask(), session=session, stream=True), timeout=PATIENCE
    )

    assert found.text == "It is fine."


def test_calls_are_seen_while_they_are_made() -> None:
    """C38: what the provider runs, and what it asks of us, is on the bus as it comes."""
    session = Session()
    recorder = Recorder(session.bus)
    with wire_bench(ANTHROPIC, *two_steps()) as (adapter, _):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), session=session, stream=True)

    progress = recorder.of(HostedToolProgress)
    assert {(e.call_id, e.tool, e.capability) for e in progress} == {
        ("srvtoolu_1", "web_search", "web_search"),
        ("srvtoolu_2", "web_search", "web_search"),
    }
    assert [(e.step, e.status) for e in progress if not (e.queries or e.arguments)] == [
        (1, "in_progress"),
        (1, "completed"),
        (2, "in_progress"),
        (2, "completed"),
    ]
    assert [e.queries for e in progress if e.queries] == [("query 1",), ("query 2",)]
    pieces = recorder.of(ArgumentsDelta)
    assert {(e.step, e.call_id, e.tool) for e in pieces} == {(1, "call_1", "add")}
    assert json.loads("".join(e.text for e in pieces)) == {"a": 1, "b": 2}


@both
def test_a_bus_hears_the_evaluation_and_nothing_after_it(stream: bool) -> None:
    """H: `evaluate(prompt, bus=bus, session=session)` lets a bus listen for that long."""
    session, bus = Session(), EventBus()
    recorder = Recorder(bus)
    with bench("Fine.", "Fine.") as (adapter, _):
        adapter.evaluate(ask(), session=session, bus=bus, stream=stream)
        heard = list(recorder.kinds)
        adapter.evaluate(ask(), session=session)

    assert recorder.kinds == heard
    assert (heard[0], heard[-1]) == ("turn.started", "turn.ended")


@pytest.mark.parametrize("arguments", ['{"user": "jo", "password": "hunter2"}', "{hunter2"])
def test_secret_arguments_are_in_no_record(arguments: str) -> None:
    """Secrets never enter a record: the call is kept without them; only the handler gets them, and
    the model hears its own call again as it was.
    """
    seen: list[str] = []

    @tool
    def login(user: str, password: Annotated[str, Secret()]) -> str:
        """Log in."""
        seen.append(password)
        return f"{user} is in"

    session = Session()
    with bench(call("login", arguments), "Fine.") as (adapter, script):
        adapter.evaluate(ask(login), session=session)

    written = b"".join(record.payload or b"" for record in session.records())
    said: Any = script.asked[1][1].parts[0]
    assert b"hunter2" not in written
    assert said.args == arguments
    assert seen == (["hunter2"] if "jo" in arguments else [])


def test_a_servers_credentials_are_in_no_record() -> None:
    """A server that repeats its token does not bring it into the ledger."""
    token = "tok-0123456789"
    docs = mcp_tool(
        McpConfig(
            server_label="docs",
            server_url="https://docs.example.org",
            authorization=token,
            require_approval="never",
        )
    )
    key = "mcptoolu_1"
    used: Json = {"type": "mcp_tool_use", "id": key, "server_name": "docs"}
    used |= {"name": "search", "input": {}}
    result: Json = {
        "type": "mcp_tool_result",
        "tool_use_id": key,
        "is_error": False,
        "content": [{"type": "text", "text": f"You sent {token}."}],
    }
    session = Session()
    answer = ANTHROPIC.answer(used, result, {"type": "text", "text": "Fine."})
    with wire_bench(ANTHROPIC, answer) as (adapter, server):
        adapter.evaluate(ask(hosted=[docs]), session=session)

    written = b"".join(record.payload or b"" for record in session.records())
    assert server.bodies[0]["mcp_servers"][0]["authorization_token"] == token
    assert token.encode() not in written
    assert b"You sent [secret]." in written


def test_a_call_that_nobody_offered_is_recorded_too() -> None:
    """N24, E2: what the provider ran unasked has happened, under the name that it gives."""
    parts = [
        NativeToolCallPart("crystal_ball", {"q": "x"}, "ball_1", provider_name="function"),
        NativeToolReturnPart("crystal_ball", {"sees": 1}, "ball_1", provider_name="function"),
        TextPart("Fine."),
    ]
    session = Session()
    with bench(parts) as (adapter, _):
        found = adapter.evaluate(ask(), session=session)

    (event,) = happened(session, ToolInvoked)
    assert (event.call_id, event.capability, event.value) == (
        "ball_1",
        "crystal_ball",
        {"sees": 1},
    )
    assert [ran.kind for _, ran in found.invocations] == ["crystal_ball"]
    assert len(happened(session, PromptAnswered)) == 1
