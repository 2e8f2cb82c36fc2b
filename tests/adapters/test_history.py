"""A prompt that follows earlier ones: the model knows what was said, whoever keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench
from tests.adapters.openai.scripted_provider import call, message, response
from toolcrib import PromptEvaluationError, Session

CALLED = response(call("add", {"a": 1, "b": 2}, call_id="call_1"), id="resp_1")
THREE = response(message("It is 3."), id="resp_2")
AGAIN = response(message("Three, as I said."), id="resp_3")


def test_a_provider_that_keeps_the_conversation_is_told_where_to_go_on() -> None:
    """The earlier prompts are not sent again."""
    session = Session()
    with bench(CALLED, THREE, AGAIN) as (adapter, provider):
        adapter.evaluate(ask(add, text="What is 1 + 2?"), session=session)
        adapter.evaluate(ask(add, text="Again?"), session=session, follows=True)

    last = provider.bodies[-1]
    assert last["previous_response_id"] == "resp_2"
    assert [item["content"][0]["text"] for item in last["input"]] == [_shown("Again?")]


def test_a_conversation_that_we_keep_is_said_again_in_order() -> None:
    """Prompt, call, output and answer of the earlier turn come before the new prompt."""
    session = Session()
    with bench(CALLED, THREE, AGAIN, history="client") as (adapter, provider):
        adapter.evaluate(ask(add, text="What is 1 + 2?"), session=session)
        response = adapter.evaluate(ask(add, text="Again?"), session=session, follows=True)

    kinds = [item["type"] for item in provider.bodies[-1]["input"]]
    assert kinds == ["message", "function_call", "function_call_output", "message", "message"]
    assert provider.bodies[-1]["input"][2]["output"] == "3"
    assert response.text == "Three, as I said."


def test_a_prompt_that_does_not_follow_knows_nothing_of_the_others() -> None:
    """Every prompt begins anew unless it is asked to follow."""
    session = Session()
    with bench(THREE, AGAIN, history="client") as (adapter, provider):
        adapter.evaluate(ask(text="What is 1 + 2?"), session=session)
        adapter.evaluate(ask(text="Again?"), session=session)

    assert len(provider.bodies[-1]["input"]) == 1


def test_what_was_never_answered_is_not_followed() -> None:
    """A prompt that failed left nothing to go on from."""
    session = Session()
    empty: dict[str, Any] = {"id": "resp_0", "status": "completed", "output": []}
    with bench(empty, THREE) as (adapter, provider):
        with pytest.raises(PromptEvaluationError):
            adapter.evaluate(ask(text="What is 1 + 2?"), session=session)
        adapter.evaluate(ask(text="Again?"), session=session, follows=True)

    assert "previous_response_id" not in provider.bodies[-1]


def _shown(text: str) -> str:
    return ask(text=text).render().text
