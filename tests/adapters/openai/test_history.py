"""Who keeps the conversation: the provider, or we."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench
from tests.adapters.openai.scripted_provider import Events, Json, call, message, response
from toolcrib import Session
from toolcrib.errors import UsageError
from toolcrib.tools.web_search import web_search_tool

ANSWER = response(message("Fine."))
REASONING: Json = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAAA",
    "status": None,
}
SEARCHED: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "x", "sources": [{"type": "api", "name": "oai-weather"}]},
}
ASKED = call("add", {"a": 1, "b": 2})
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "3"}


def test_the_provider_keeps_the_history() -> None:
    """With server history a request brings only what is new, and names the response before it."""
    first, second = response(REASONING, ASKED), response(call("add", {"a": 0, "b": 1}, "call_2"))
    with bench(first, second, ANSWER) as (adapter, provider):
        adapter.evaluate(ask(add))

    one, two, three = provider.bodies
    assert [item["type"] for item in one["input"]] == ["message"]
    assert "previous_response_id" not in one
    assert (two["previous_response_id"], two["input"]) == (first["id"], [OUTPUT])
    assert three["previous_response_id"] == second["id"]
    assert [item["call_id"] for item in three["input"]] == ["call_2"]
    assert not any("store" in body for body in provider.bodies)


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
def test_we_keep_the_history(stream: bool) -> None:
    """E2, P23: with client history nothing is stored, reasoning comes encrypted, and every item is
    sent back verbatim, hosted calls included.
    """
    items = [REASONING, SEARCHED, ASKED]
    with bench(response(*items), ANSWER, history="client") as (adapter, provider):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), stream=stream)

    one, two = provider.bodies
    assert two["input"] == [*one["input"], *items, OUTPUT]
    for body in (one, two):
        assert body["store"] is False
        assert body["include"] == [
            "web_search_call.action.sources",
            "reasoning.encrypted_content",
        ]
        assert "previous_response_id" not in body


def test_what_only_the_stream_tells_of_an_item_is_sent_back_too() -> None:
    """Encrypted reasoning may come with the item's own event and not with the whole response."""
    bare = {key: value for key, value in REASONING.items() if key != "encrypted_content"}
    body = response(bare, ASKED)
    stream = [
        {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
        {"type": "response.completed", "response": body},
    ]
    with bench(history="client") as (adapter, provider):
        provider.add(Events(stream), ANSWER)
        adapter.evaluate(ask(add), stream=True)

    assert provider.bodies[1]["input"][1] == REASONING


def test_items_of_the_stream_stand_in_for_an_output_that_is_left_out() -> None:
    """Some servers end a stream with a response that has no items."""
    stream: list[Json] = [
        {"type": "response.output_item.done", "output_index": 0, "item": message("Fine.")},
        {"type": "response.completed", "response": {**response(), "output": []}},
    ]
    with bench(Events(stream)) as (adapter, _):
        found = adapter.evaluate(ask(), stream=True)

    assert found.text == "Fine."


@pytest.mark.parametrize("history", ["server", "client"])
def test_prompts_in_one_session_do_not_see_each_other(history: Any) -> None:
    """Each evaluation is a conversation of its own."""
    session = Session()
    with bench(ANSWER, ANSWER, history=history) as (adapter, provider):
        adapter.evaluate(ask(), session=session)
        adapter.evaluate(ask(), session=session)

    assert provider.bodies[0] == provider.bodies[1]


def test_settings_are_sent_as_they_are() -> None:
    """Fields of the provider's, also ones that no SDK knows yet, reach every request."""
    settings = {
        "temperature": 0.5,
        "reasoning": {"effort": "low"},
        "newest_field": [1],
        "include": ["message.output_text.logprobs"],
    }
    with bench(response(ASKED), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(add, hosted=[web_search_tool()]), settings=settings)

    for body in provider.bodies:
        assert {key: body[key] for key in settings} == {
            **settings,
            "include": ["message.output_text.logprobs", "web_search_call.action.sources"],
        }


@pytest.mark.parametrize(
    "field", ["store", "tools", "input", "stream", "previous_response_id", "tool_choice", "model"]
)
def test_settings_do_not_override_what_the_adapter_decides(field: str) -> None:
    """A field that would break the loop is refused, with what to use instead."""
    with bench() as (adapter, provider), pytest.raises(UsageError, match=f"may not hold '{field}'"):
        adapter.evaluate(ask(), settings={field: 1})

    assert provider.requests == []


def test_only_the_responses_api_is_spoken() -> None:
    """C20: instructions and input go into `input`; there are no `messages`."""
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(ask(text="Say hello."))

    assert provider.requests[0].path == "/v1/responses"
    assert provider.bodies[0] == {
        "model": "test-model",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "## Task\n\nSay hello."}],
            }
        ],
    }
