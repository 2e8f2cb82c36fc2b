"""What is sent, as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.shared import Reasoning

from tests.adapters.openai.loopback_adapter import add, ask, bench
from tests.adapters.openai.scripted_provider import call, message, response
from toolcrib import PromptEvaluationError
from toolcrib.adapters.items import ContextItem, Item
from toolcrib.adapters.openai.request import Outgoing, encoded

ANSWER = response(message("Fine."))


class Seen:
    """A part of an item that counts how often it is encoded."""

    def __init__(self) -> None:
        self.times = 0

    def model_dump(self, **_: Any) -> dict[str, Any]:
        self.times += 1
        return {"seen": True}


def test_an_item_is_encoded_once_however_often_it_is_sent() -> None:
    """A history that goes out with every request costs a request only what is new in it."""
    parts = [Seen() for _ in range(5)]
    outgoing = Outgoing()
    items: list[Item] = []
    for number, part in enumerate(parts, start=1):
        items.append(ContextItem({"part": part}))
        assert json.loads(outgoing.to_json(items)) == [{"part": {"seen": True}}] * number

    assert [part.times for part in parts] == [1] * 5


def test_another_list_is_another_history() -> None:
    """Where the provider keeps what was said, a request brings only what is new."""
    outgoing = Outgoing()
    outgoing.to_json([ContextItem({"said": 1})])

    assert json.loads(outgoing.to_json([ContextItem({"said": 2})])) == [{"said": 2}]


def test_no_items_are_an_empty_list() -> None:
    """The field is never missing."""
    assert Outgoing().to_json([]) == b"[]"


@pytest.mark.parametrize("text", ["plain", "déjà vu", "\N{SNAKE}", "\ud800 alone", '"\\\n'])
def test_any_text_goes_back_as_it_came(text: str) -> None:
    """E2: also half of a surrogate pair, which some models write and UTF-8 cannot."""
    assert json.loads(encoded({"text": text})) == {"text": text}

    said = {**message(text), "phase": "commentary"}
    with bench(response(said, call("add", {"a": 1, "b": 2})), ANSWER, history="client") as (
        adapter,
        provider,
    ):
        adapter.evaluate(ask(add))

    assert provider.bodies[1]["input"][1] == said


def test_text_is_not_blown_up_by_escapes() -> None:
    """Most of the world's letters are shorter in UTF-8."""
    assert encoded(["ж"]) == '["ж"]'.encode()


def test_settings_may_hold_models_of_the_sdk() -> None:
    """What was not set in them is not sent."""
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(ask(), settings={"reasoning": Reasoning(effort="low")})

    assert provider.bodies[0]["reasoning"] == {"effort": "low"}


@pytest.mark.parametrize("value", [object(), {1, 2}, b"raw"])
def test_what_cannot_be_json_is_told_before_anything_is_sent(value: object) -> None:
    """E4: the error says what is wrong, and the provider hears nothing."""
    with bench() as (adapter, provider), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(), settings={"metadata": value})

    assert caught.value.phase == "render"
    assert f"{type(value).__name__} is not JSON" in str(caught.value)
    assert provider.requests == []
