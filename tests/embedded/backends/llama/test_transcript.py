"""The conversation as a small model reads it."""

from __future__ import annotations

import json

import pytest

from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendMessage,
    BackendRequest,
    BackendTool,
)
from toolcrib.embedded.backends.llama.transcript import (
    BRIEF,
    FULL,
    LONGEST_RESULT,
    PromptGuide,
    guide_for,
    messages_for,
)
from toolcrib.embedded.model_files import DEFAULT, SMALL

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "where"},
        "unit": {"enum": ["c", "f"]},
        "days": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["city"],
}
WEATHER = BackendTool("weather", "The weather.\nMore that nobody needs.", PARAMETERS)


def test_a_tool_is_one_line_of_a_signature_and_notes() -> None:
    """Optional arguments have a `?`, choices are listed, and only the first line describes."""
    messages = messages_for(BackendRequest("m", [BackendMessage("user", "hi")], tools=[WEATHER]))
    [own] = [each["content"] for each in messages if "A new conversation" in each["content"]]
    assert (
        'weather(city: string, unit?: "c" | "f", days?: integer[]): The weather.\n  city: where'
        in own
    )
    assert "nobody" not in own


@pytest.mark.parametrize("guide", [FULL, BRIEF])
def test_the_examples_are_in_the_form_that_is_wanted(guide: PromptGuide) -> None:
    """Each step of the worked example is one JSON object, a call or an answer."""
    messages = messages_for(
        BackendRequest("m", [BackendMessage("user", "hi")], tools=[WEATHER]), guide
    )
    steps = [json.loads(each["content"]) for each in messages if each["role"] == "assistant"]
    assert steps
    assert messages[0]["content"].startswith(guide.rules)
    assert all({*step} in ({"answer"}, {"tool", "arguments"}) for step in steps)


def test_the_examples_come_first_so_that_they_are_read_once() -> None:
    """Two requests with different tools begin alike: the model keeps what it has read."""
    one = messages_for(BackendRequest("m", [BackendMessage("user", "a")], tools=[WEATHER]))
    other = messages_for(
        BackendRequest(
            "m", [BackendMessage("user", "b")], "Be brief.", tools=[BackendTool("x", "", {})]
        )
    )
    assert one[:-2] == other[:-2]
    assert "Be brief." in other[-2]["content"]


def test_a_conversation_is_told_in_the_same_form() -> None:
    """Calls and answers are the model's own steps; results come from outside, and are cut."""
    turns = [
        BackendMessage("developer", "rule"),
        BackendMessage("user", "Rome?"),
        BackendCall("1", "weather", '{"city": "Rome"}'),
        BackendCallResult("1", "weather", "x" * 9000),
        BackendMessage("assistant", 'It is "x".'),
        BackendMessage("user", "thanks"),
    ]
    told = messages_for(BackendRequest("m", turns, tools=[WEATHER]))[-6:]
    assert [each["role"] for each in told] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert json.loads(told[2]["content"]) == {"tool": "weather", "arguments": {"city": "Rome"}}
    assert told[3]["content"] == "Result of weather: " + "x" * LONGEST_RESULT
    assert json.loads(told[4]["content"]) == {"answer": 'It is "x".'}


def test_without_tools_there_are_no_rules_for_tools() -> None:
    """A plain question is asked plainly."""
    messages = messages_for(
        BackendRequest("m", [BackendMessage("user", "hi")], instructions="Be brief.")
    )
    assert [each["role"] for each in messages] == ["system", "user"]
    assert "tool" not in messages[0]["content"]
    assert messages[0]["content"].endswith("Be brief.")


def test_after_a_result_the_question_is_repeated() -> None:
    """A small model reads what was asked right before it answers; not before there is a result,
    and not the smallest, which would repeat it.
    """
    asked = BackendMessage("user", "Rome, please?")
    turns = [asked, BackendCall("1", "weather", "{}"), BackendCallResult("1", "weather", "21")]
    told = messages_for(BackendRequest("m", turns, tools=[WEATHER]))
    assert told[-2]["content"] == "Result of weather: 21"
    assert told[-1]["content"].startswith("The user asked: Rome, please?\n")
    assert messages_for(BackendRequest("m", [asked], tools=[WEATHER]))[-1]["content"] == asked.text
    assert messages_for(BackendRequest("m", turns, tools=[WEATHER]), BRIEF)[-1] == told[-2]


def test_a_smaller_model_is_told_less() -> None:
    """Small talk in the example makes the smallest models talk where they should call."""
    assert guide_for(SMALL.bytes) is BRIEF
    assert guide_for(DEFAULT.bytes) is FULL
