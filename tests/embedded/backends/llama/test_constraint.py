"""What a small model may write: every form is closed, and every text has an end."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from toolcrib.embedded import BackendTool, OutputFormat
from toolcrib.embedded.backends.llama.backend import (
    LONGEST_ANSWER,
    LONGEST_CODE,
    LONGEST_TEXT,
    MAX_MEMBERS,
    bounded,
    constraint_for,
)

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "where"}},
    "required": ["city"],
}
TOOLS = [
    BackendTool("weather", "", CITY),
    BackendTool("time", "", {"type": "object", "properties": {}}),
]


def takes(schema: dict[str, Any], value: Any) -> bool:
    validator: Any = Draft202012Validator(schema)
    return validator.is_valid(value)


@pytest.mark.parametrize(
    ("value", "is_taken"),
    [
        ({"tool": "weather", "arguments": {"city": "Rome"}}, True),
        ({"tool": "time", "arguments": {}}, True),
        ({"answer": "hello"}, True),
        ({"tool": "weather", "arguments": {}}, False),
        ({"tool": "weather", "arguments": {"city": "Rome", "more": 1}}, False),
        ({"tool": "fly", "arguments": {}}, False),
        ({"tool": "time", "arguments": {}, "answer": "both"}, False),
        ({"answer": "x" * (LONGEST_ANSWER + 1)}, False),
        ({"tool": "weather", "arguments": {"city": "x" * (LONGEST_TEXT + 1)}}, False),
        ("hello", False),
    ],
)
def test_a_step_is_a_call_of_an_offered_tool_or_an_answer(value: Any, is_taken: bool) -> None:
    """Nothing else can be written."""
    schema = constraint_for(TOOLS, OutputFormat(), may_answer=True)
    assert takes(schema, value) is is_taken


def test_who_may_not_answer_has_to_call() -> None:
    """With the choice `required` there is no answer to write, unless there is nothing to call."""
    schema = constraint_for(TOOLS, OutputFormat(), may_answer=False)
    assert not takes(schema, {"answer": "no"})
    assert takes(constraint_for([], OutputFormat(), may_answer=False), {"answer": "no"})


def test_an_answer_has_the_form_that_was_asked_for() -> None:
    """A schema of the request holds for the answer, and a call is still possible."""
    output = OutputFormat("json_schema", "city", CITY)
    schema = constraint_for(TOOLS, output, may_answer=True)
    assert takes(schema, {"answer": {"city": "Rome"}})
    assert not takes(schema, {"answer": "Rome"})
    loose = constraint_for([], OutputFormat("json_object"), may_answer=True)
    assert takes(loose, {"answer": {"any": 1}})
    assert not takes(loose, {"answer": "text"})


def test_texts_and_lists_are_bounded_at_any_depth() -> None:
    """Small models do not stop by themselves. A smaller bound of the schema stays."""
    schema = bounded(
        {
            "type": "object",
            "$defs": {"Name": {"type": "string", "title": "Name"}},
            "properties": {
                "names": {"type": "array", "items": {"$ref": "#/$defs/Name"}},
                "short": {"type": "string", "maxLength": 5},
                "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "code": {"type": "string"},
                "title": {"type": "string"},
            },
        }
    )
    members = schema["properties"]
    assert schema["$defs"]["Name"] == {"type": "string", "maxLength": LONGEST_TEXT}
    assert members["names"]["maxItems"] == MAX_MEMBERS
    assert members["short"]["maxLength"] == 5
    assert members["either"]["anyOf"][0]["maxLength"] == LONGEST_TEXT
    assert members["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert members["code"]["maxLength"] == LONGEST_CODE
    assert members["title"]["maxLength"] == LONGEST_TEXT
    assert schema["additionalProperties"] is False


def test_values_that_look_like_schemas_stay_as_they_are() -> None:
    """An enum or a const is data: nothing in it is dropped or bounded."""
    odd = {"enum": [{"title": "x", "type": "string"}], "const": {"type": "array"}}
    assert bounded(odd) == odd
