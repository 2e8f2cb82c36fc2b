"""What goes wrong on the way to an answer: each fault is recovered from, or told as what it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import KEY, ask, bench, happened
from tests.adapters.openai.scripted_provider import (
    Body,
    Dropped,
    Events,
    Json,
    Provider,
    Reply,
    Silence,
    Text,
    call,
    events_of,
    message,
    response,
)
from toolcrib import PromptEvaluationError, Session, ToolInvoked, tool
from toolcrib.adapters.openai import Budget, OpenAIAdapter, Retry
from toolcrib.ledger.prompt_events import ModelResponded, PromptAnswered
from toolcrib.tools.web_search import web_search_tool

ANSWER = response(message("Fine."))
RATE_LIMITED = Body(
    {"error": {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}},
    429,
    {"retry-after": "0.001"},
)
BROKEN = Body({"error": {"message": "The server had an error."}}, 500)
SEARCHED: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "cribs"},
}


def error(code: str | None, text: str, status: int, **headers: str) -> Body:
    return Body({"error": {"message": text, "code": code}}, status, headers)


def failing(adapter: OpenAIAdapter, **options: Any) -> PromptEvaluationError:
    """The error that the evaluation ends with."""
    with pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(), **options)
    assert caught.value.prompt_name == "test:ask"
    return caught.value


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
@pytest.mark.parametrize(
    "fault",
    [
        RATE_LIMITED,
        BROKEN,
        Dropped(),
        Text('{"id": "resp_1", "output": [{"type": "mess'),
        Events(events_of(ANSWER)[:3], is_cut=True),
        Events(events_of(ANSWER)[:3]),
        Events([*events_of(ANSWER)[:2], {"type": "error", "code": "server_error"}]),
    ],
    ids=["429", "500", "dropped", "cut_json", "cut_stream", "ended_stream", "error_event"],
)
def test_a_passing_fault_is_tried_again(fault: Reply, stream: bool) -> None:
    """A rate limit, a server's fault and a lost line do not end a prompt that can go on."""
    session = Session()
    with bench(fault, ANSWER) as (adapter, provider):
        found = adapter.evaluate(ask(), session=session, stream=stream)

    assert found.text == "Fine."
    assert found.request_ids == ("req_2",)
    assert provider.bodies[0] == provider.bodies[1]
    assert len(happened(session, ModelResponded)) == 1


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (RATE_LIMITED, "429: rate_limit_exceeded: Slow down. It asks to wait 0.001 seconds."),
        (BROKEN, "HTTP 500: The server had an error."),
        (Text("not json"), "the reply is not whole JSON"),
        (Text("<html>", "text/html"), "the reply is not whole JSON"),
        (Text("[1]"), "the reply is JSON, but no response"),
    ],
    ids=["429", "500", "cut", "page", "list"],
)
def test_a_fault_that_stays_is_told_with_its_request(fault: Reply, text: str) -> None:
    """After the last attempt the error has phase request, the prompt's name and the request id."""
    with bench(fault, fault, fault, retry=Retry(attempts=3, first_seconds=0.001)) as (adapter, _):
        told = failing(adapter)

    assert (told.phase, told.request_id) == ("request", "req_3")
    assert text in str(told)


def test_a_lost_line_is_told_when_it_stays_lost() -> None:
    """There is no request id when no reply ever came."""
    with bench(Dropped(), Dropped(), retry=Retry(attempts=2, first_seconds=0.001)) as (adapter, _):
        told = failing(adapter)

    assert (told.phase, told.request_id) == ("request", None)


def test_a_stream_that_breaks_off_again_and_again_is_told_with_its_request() -> None:
    """The id of a broken stream is known from its start."""
    cut = Events(events_of(ANSWER)[:2])
    with bench(cut, cut, retry=Retry(attempts=2, first_seconds=0.001)) as (adapter, _):
        told = failing(adapter, stream=True)

    assert (told.phase, told.request_id) == ("request", "req_2")
    assert "ended before the response was complete" in str(told)


@pytest.mark.parametrize(
    "fault",
    [
        error("invalid_request_error", "No such model.", 400),
        error("invalid_api_key", "Wrong key.", 401),
        error("insufficient_quota", "You ran out of credits.", 429),
        error(None, "Not now.", 503, **{"x-should-retry": "false"}),
    ],
    ids=["400", "401", "quota", "told"],
)
def test_what_would_be_said_again_is_not_asked_again(fault: Body) -> None:
    """A wrong request, a wrong key and an empty account are told at once."""
    with bench(fault, ANSWER) as (adapter, provider):
        told = failing(adapter)

    assert (told.phase, told.request_id) == ("request", "req_1")
    assert len(provider.requests) == 1
    assert fault.body["error"]["message"] in str(told)


def test_a_stream_that_refuses_the_prompt_is_not_asked_again() -> None:
    """An error event says whether the same request could be answered."""
    refused = Events([{"type": "error", "code": "invalid_prompt", "message": "Not this."}])
    with bench(refused, ANSWER) as (adapter, provider):
        told = failing(adapter, stream=True)

    assert len(provider.requests) == 1
    assert "Not this." in str(told)


def test_a_server_that_asks_for_too_long_a_pause_is_not_waited_for() -> None:
    """A prompt does not hang for an hour because a header says so."""
    with bench(error(None, "Later.", 429, **{"retry-after": "3600"}), ANSWER) as (adapter, _):
        told = failing(adapter)

    assert "It asks to wait 3600 seconds" in str(told)


def test_the_key_is_in_no_error() -> None:
    """A server that repeats the key does not bring it into logs."""
    with bench(error(None, f"Incorrect API key provided: {KEY}", 401)) as (adapter, _):
        told = failing(adapter)

    assert KEY not in str(told)
    assert "[secret]" in str(told)


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
def test_no_answer_within_the_budget_ends_the_prompt(stream: bool) -> None:
    """A provider that says nothing does not hold a prompt past its seconds."""
    with bench(Silence()) as (adapter, _):
        told = failing(adapter, budget=Budget(seconds=0.05), stream=stream)

    assert told.phase == "budget"
    assert "the deadline passed" in str(told)


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "cut off (max_output_tokens); allow more output tokens",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "the answer was filtered (content_filter)",
        ),
        ({"status": "incomplete"}, "the provider does not say why"),
        (
            {"status": "failed", "error": {"code": "server_error", "message": "Sorry."}},
            "the provider failed: server_error: Sorry.",
        ),
        ({"status": "cancelled"}, "the response is cancelled, not complete"),
    ],
    ids=["cut", "filtered", "incomplete", "failed", "cancelled"],
)
def test_an_unfinished_response_is_no_answer(fields: Json, text: str, stream: bool) -> None:
    """E5, C33, P14: filtered, cut and failed output raises in phase response; it is not given out
    as if it were the answer.
    """
    session = Session()
    with bench({**response(message("Half an ans")), **fields}) as (adapter, _):
        told = failing(adapter, session=session, stream=stream)

    assert (told.phase, told.request_id) == ("response", "req_1")
    assert text in str(told)
    assert happened(session, PromptAnswered) == []


def test_a_refusal_is_told_in_the_models_words() -> None:
    """P14: a refusal is no answer."""
    refusal = {"type": "refusal", "refusal": "I will not."}
    with bench(response(message("", content=[refusal]))) as (adapter, _):
        told = failing(adapter)

    assert told.phase == "response"
    assert str(told) == "prompt 'test:ask': the model refused: I will not. (request req_1)"


@pytest.mark.parametrize("items", [[], [{"type": "reasoning", "id": "rs_1", "summary": []}]])
def test_an_empty_response_is_no_answer(items: list[Json]) -> None:
    """A response without answer and call is a fault, not an empty text."""
    with bench(response(*items)) as (adapter, _):
        told = failing(adapter)

    assert told.phase == "response"
    assert "the response is empty" in str(told)


def test_calls_in_an_unfinished_response_are_recorded_and_ours_do_not_run() -> None:
    """N24, E5: what the provider ran has happened; what we would run may be cut in half."""
    ran: list[str] = []

    @tool
    def wipe(path: str) -> str:
        """Remove everything under a path."""
        ran.append(path)
        return "gone"

    session = Session()
    items = [SEARCHED, call("wipe", {"path": "/"})]
    with (
        bench({**response(*items), "status": "incomplete"}) as (adapter, _),
        pytest.raises(PromptEvaluationError, match="incomplete"),
    ):
        adapter.evaluate(ask(wipe, hosted=[web_search_tool()]), session=session)

    assert ran == []
    assert [event.call_id for event in happened(session, ToolInvoked)] == ["ws_1"]


def test_a_tool_runs_once_however_often_the_answer_is_asked_for() -> None:
    """A request that is tried again brings the same outputs; no call is made twice."""
    ran: list[int] = []

    @tool
    def count() -> int:
        """Count how often this is called."""
        ran.append(1)
        return len(ran)

    asking = response(call("count"))
    faults = [BROKEN, Dropped(), RATE_LIMITED]
    with bench(asking, *faults, ANSWER) as (adapter, provider):
        found = adapter.evaluate(ask(count))

    assert found.text == "Fine."
    assert ran == [1]
    assert [body["input"] for body in provider.bodies[1:]] == [
        [{"type": "function_call_output", "call_id": "call_1", "output": "1"}]
    ] * 4


def test_unknown_items_and_fields_are_counted_and_sent_back() -> None:
    """E2, E4: what this version does not know neither breaks a prompt nor gets lost."""
    strange = {"type": "dream_call", "id": "dr_1", "content": {"sheep": [1, 2]}}
    odd = {**call("add", {"a": 1}), "mood": "good"}
    with bench(response(strange, odd), ANSWER, history="client") as (adapter, provider):
        found = adapter.evaluate(ask())

    assert found.skipped == {"dream_call": 1}
    assert provider.bodies[1]["input"][1:3] == [strange, odd]


@pytest.mark.parametrize("text", ["Container is expired.", "The container cntr_1 has EXPIRED"])
def test_an_expired_container_is_told_with_what_to_do(text: str) -> None:
    """C26: the provider has no code for it, only words; the error says to use a new container."""
    with bench(error(None, text, 400)) as (adapter, provider):
        told = failing(adapter)

    assert told.phase == "request"
    assert text in str(told)
    assert "AutoContainer" in str(told)
    assert len(provider.requests) == 1


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
    with (
        bench(response(*calls)) as (adapter, _),
        pytest.raises(PromptEvaluationError, match="cannot be answered") as caught,
    ):
        adapter.evaluate(ask(note))

    assert (caught.value.phase, caught.value.request_id) == ("response", "req_1")
    assert ran == []


def test_a_subscriber_that_fails_does_not_break_the_prompt() -> None:
    """E11: what the provider ran is recorded, whoever fails to hear of it."""
    session = Session()

    def fail(_: ToolInvoked) -> None:
        raise RuntimeError("deaf")

    session.bus.subscribe(ToolInvoked, fail)
    with bench(response(SEARCHED, message("Fine."))) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[web_search_tool()]), session=session)

    assert found.text == "Fine."
    assert [event.call_id for event in happened(session, ToolInvoked)] == ["ws_1"]
    assert session.bus.failures == 1


def test_the_providers_own_words_arrive_unbroken() -> None:
    """E2: what the server sent is what the ledger keeps, byte for byte of meaning."""
    item = {**message("Grüße \U0001f600"), "extra": {"n": 1.5, "none": None}}
    session = Session()
    with Provider(Text(json.dumps(response(item)))) as provider:
        adapter = OpenAIAdapter(model="m", base_url=provider.url, api_key=KEY)
        adapter.evaluate(ask(), session=session)
        adapter.close()

    assert [event.items for event in happened(session, ModelResponded)] == [[item]]
