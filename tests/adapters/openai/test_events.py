"""What the ledger, the bus and the transcript tell of an evaluation."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, call, events_of, message, response
from toolcrib import EventBus, PromptEvaluationError, Secret, Session, ToolInvoked, tool
from toolcrib.ledger.prompt_events import (
    HostedToolProgress,
    ModelResponded,
    PromptAnswered,
    PromptStarted,
    TextDelta,
)
from toolcrib.testing import Recorder
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.web_search import WebSearchResult, web_search_tool

ANSWER = response(message("Fine."))


def searched(number: int, **fields: Any) -> Json:
    action = {"type": "search", "query": f"query {number}"}
    return {
        "type": "web_search_call",
        "id": f"ws_{number}",
        "status": "completed",
        "action": action,
        **fields,
    }


def two_steps() -> list[Json]:
    """A search and a call of ours, then another search and the answer."""
    return [
        response(searched(1), call("add", {"a": 1, "b": 2})),
        response(searched(2), message("Fine.")),
    ]


def test_provider_run_calls_are_events_like_any_other() -> None:
    """N3, N21, N22, N24, N25: one shape for all calls; origin, provider and capability say where
    it ran, and are empty or `local` for ours.
    """
    session = Session()
    with bench(*two_steps()) as (adapter, _):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), session=session)

    events = happened(session, ToolInvoked)
    assert [(e.name, e.origin, e.provider, e.capability) for e in events] == [
        ("web_search", "provider", "openai", "web_search"),
        ("add", "local", None, None),
        ("web_search", "provider", "openai", "web_search"),
    ]
    assert [e.call_id for e in events] == ["ws_1", "call_1", "ws_2"]
    assert events[0].raw == searched(1)
    assert events[0].params == {
        "action": "search",
        "queries": ["query 1"],
        "url": None,
        "pattern": None,
    }
    assert all(event.success for event in events)


def test_subscribers_get_the_typed_value() -> None:
    """N2, N21: in this process the value is what the codec made of it."""
    session = Session()
    recorder = Recorder(session.bus)
    with bench(response(searched(1), message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[web_search_tool()]), session=session)

    (event,) = recorder.of(ToolInvoked)
    assert isinstance(event.value, WebSearchResult)


def test_everything_is_in_the_ledger_in_the_order_it_happened() -> None:
    """N20, N26: the request's answer, the provider's calls, ours, the next answer, the end."""
    session = Session()
    with bench(*two_steps()) as (adapter, _):
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


@pytest.mark.parametrize("item_id", [None, "", "w" * 300, "ws\n1"])
def test_a_call_without_an_id_is_recorded_by_its_place(item_id: str | None) -> None:
    """N24: an id that is missing, or that no ledger could keep, is no reason to lose a call."""
    session = Session()
    items = [searched(1, id=item_id), searched(2), searched(3, id=item_id)]
    with bench(response(*items, message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[web_search_tool()]), session=session)

    call_ids = [event.call_id for event in happened(session, ToolInvoked)]
    assert call_ids == ["web_search_1_1", "ws_2", "web_search_1_3"]


def test_a_failed_provider_call_is_a_failed_event() -> None:
    """N17, N34, H44: the failure has the provider's words and a kind that programs can read."""
    session = Session()
    failed = searched(1, status="failed", error={"code": "timeout", "message": "too slow"})
    with bench(response(failed, message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[web_search_tool()]), session=session)

    (event,) = happened(session, ToolInvoked)
    assert event.failure is not None
    assert (event.success, event.failure.kind) == (False, "provider_error")
    assert (event.value["status"], event.value["error"]) == ("failed", event.failure.message)
    assert "timeout" in event.failure.message


def test_the_transcript_has_provider_run_calls() -> None:
    """N23, N35: rendered output and payload stand beside those of our own tools."""
    session = Session()
    with bench(*two_steps()) as (adapter, _):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), session=session)

    entries = session.transcript()
    assert [(e.tool, e.what, e.origin) for e in entries] == [
        ("web_search", "completed", "provider"),
        ("add", "completed", "local"),
        ("web_search", "completed", "provider"),
    ]
    assert entries[0].text == "search: query 1"
    assert entries[0].value == {
        "text": "",
        "citations": [],
        "source_urls": [],
        "status": "completed",
        "error": None,
    }


def test_reducers_fold_provider_run_calls_too() -> None:
    """N23: a reducer needs to know nothing of where a call ran."""
    session = Session()
    session.add_reducer("calls", ToolInvoked, lambda count, event: count + 1, 0)
    with bench(*two_steps()) as (adapter, _):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), session=session)

    assert session.state("calls") == 3


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (ANSWER, "completed"),
        ({**ANSWER, "status": None}, "completed"),
        ({**ANSWER, "status": "incomplete"}, "incomplete"),
        ({**ANSWER, "status": "failed"}, "failed"),
        ({**ANSWER, "status": "cancelled"}, "failed"),
        (response(message("", content=[{"type": "refusal", "refusal": "No."}])), "refused"),
        (response(), "empty"),
    ],
)
def test_the_ledger_keeps_what_a_request_came_to(reply: Json, status: str) -> None:
    """E5: whoever reads the ledger need not guess from the items whether they are an answer."""
    session = Session()
    with bench(reply) as (adapter, _), suppress(PromptEvaluationError):
        adapter.evaluate(ask(), session=session)

    (event,) = happened(session, ModelResponded)
    assert event.status == status
    assert bool(happened(session, PromptAnswered)) is (status == "completed")


def test_the_ledger_keeps_what_was_asked_and_what_it_cost() -> None:
    """C37: request id, model and tokens of every step are kept."""
    session = Session()
    with bench(*two_steps()) as (adapter, _):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), session=session)

    (started,) = happened(session, PromptStarted)
    first, second = happened(session, ModelResponded)
    assert (started.prompt_name, started.adapter, started.model) == (
        "test:ask",
        "openai",
        "test-model",
    )
    assert (first.step, first.request_id, first.model) == (1, "req_1", "test-model")
    assert first.usage["input_tokens"] == 10
    assert (second.step, second.request_id, second.turn) == (2, "req_2", 1)
    assert second.items == [searched(2), message("Fine.")]


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
def test_a_bus_hears_the_evaluation_and_nothing_after_it(stream: bool) -> None:
    """H: `evaluate(prompt, bus=bus, session=session)` lets a bus listen for that long."""
    session, bus = Session(), EventBus()
    recorder = Recorder(bus)
    with bench(response(searched(1), message("Fine.")), ANSWER) as (adapter, _):
        adapter.evaluate(ask(hosted=[web_search_tool()]), session=session, bus=bus, stream=stream)
        heard = list(recorder.kinds)
        adapter.evaluate(ask(), session=session)

    assert recorder.kinds == heard
    assert heard[0] == "turn.started"
    assert heard[-1] == "turn.ended"


def test_a_bus_that_is_the_sessions_own_hears_everything_once() -> None:
    """Passing the same bus twice does not double its events."""
    bus = EventBus()
    recorder = Recorder(bus)
    with bench(ANSWER) as (adapter, _):
        adapter.evaluate(ask(), session=Session(bus=bus), bus=bus)

    assert recorder.kinds.count("prompt.answered") == 1


def test_the_text_is_heard_as_it_comes() -> None:
    """C38: pieces of the answer are on the bus while it is produced; the ledger has the whole."""
    session = Session()
    recorder = Recorder(session.bus)
    with bench(response(searched(1), message("It is fine."))) as (adapter, provider):
        found = adapter.evaluate(ask(hosted=[web_search_tool()]), session=session, stream=True)

    pieces = recorder.of(TextDelta)
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == found.text == "It is fine."
    assert {(piece.turn, piece.step) for piece in pieces} == {(1, 1)}
    progress = recorder.of(HostedToolProgress)
    assert [(each.call_id, each.tool, each.status, each.queries) for each in progress] == [
        ("ws_1", "web_search", "in_progress", ()),
        ("ws_1", "web_search", "in_progress", ("query 1",)),
        ("ws_1", "web_search", "completed", ()),
    ]
    assert provider.bodies[0]["stream"] is True
    assert "model.text_delta" not in [record.kind for record in session.records()]


def test_streamed_and_blocking_evaluations_come_to_the_same() -> None:
    """C38: how an answer travels changes nothing about it."""
    cited = message(
        "See e.org.",
        {
            "type": "url_citation",
            "url": "https://e.org",
            "title": "E",
            "start_index": 4,
            "end_index": 9,
        },
    )
    steps = [two_steps()[0], response(searched(2), cited)]
    found: list[Any] = []
    for stream in (False, True):
        with bench(*steps) as (adapter, _):
            found.append(adapter.evaluate(ask(add, hosted=[web_search_tool()]), stream=stream))

    assert found[0] == found[1]
    assert found[0].citations[0].span == (4, 9)
    assert len(events_of(steps[1])) > 2


@pytest.mark.parametrize("arguments", ['{"user": "jo", "password": "hunter2"}', "{hunter2"])
def test_secret_arguments_are_in_no_record(arguments: str) -> None:
    """Secrets never enter a record: the call is kept without them; only the handler gets them."""
    seen: list[str] = []

    @tool
    def login(user: str, password: Annotated[str, Secret()]) -> str:
        """Log in."""
        seen.append(password)
        return f"{user} is in"

    session = Session()
    asked = call("login", arguments)
    with bench(response(asked), ANSWER, history="client") as (adapter, provider):
        adapter.evaluate(ask(login), session=session)

    written = b"".join(record.payload or b"" for record in session.records())
    assert b"hunter2" not in written
    assert provider.bodies[1]["input"][1] == asked
    assert seen == (["hunter2"] if "jo" in arguments else [])


def test_a_secret_text_is_in_no_record() -> None:
    """Secrets never enter a record, whatever shape the call comes in."""

    @tool
    def login(input: Annotated[str, Secret()]) -> str:
        """Log in."""
        return "in"

    session = Session()
    asked = {"type": "custom_tool_call", "call_id": "call_1", "name": "login", "input": "hunter2"}
    with bench(response(asked), ANSWER) as (adapter, _):
        adapter.evaluate(ask(login), session=session)

    (heard, _) = happened(session, ModelResponded)
    written = b"".join(record.payload or b"" for record in session.records())
    assert b"hunter2" not in written
    assert heard.items == [{**asked, "input": "[secret]"}]


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
    called = {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": "docs",
        "name": "search",
        "arguments": "{}",
        "output": f"You sent {token}.",
        "status": "completed",
    }
    session = Session()
    with bench(response(called, message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(hosted=[docs]), session=session)

    written = b"".join(record.payload or b"" for record in session.records())
    assert provider.bodies[0]["tools"][0]["authorization"] == token
    assert token.encode() not in written
    assert b"You sent [secret]." in written
