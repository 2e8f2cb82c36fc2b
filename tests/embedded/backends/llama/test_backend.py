"""The steps of the llama backend, with texts in place of a model, and with the small model.

Every form that the model may write is closed, and every text has an end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendTool,
    BackendUsage,
    OutputFormat,
    ProposedCall,
    Truncation,
)
from toolcrib.embedded.backends.llama.backend import (
    LONGEST_ANSWER,
    LONGEST_CODE,
    LONGEST_TEXT,
    MAX_MEMBERS,
    MAX_TOKENS,
    Completion,
    LlamaBackend,
    bounded,
    constraint_for,
    propose_with,
)
from toolcrib.embedded.model_files import SMALL, model_folder
from toolcrib.errors import BackendFailed, UsageError

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = BackendTool("weather", "The weather in a city now.", CITY)
ROME = '{"tool": "weather", "arguments": {"city": "Rome"}}'


class Writer:
    """Writes what a test says, one text after the other."""

    def __init__(self, *texts: str, is_cut: bool = False) -> None:
        self.texts = list(texts)
        self.is_cut = is_cut
        self.asked: list[tuple[dict[str, Any], int]] = []

    async def write(self, messages: Any, schema: dict[str, Any], most: int) -> Completion:
        self.asked.append((schema, most))
        return Completion(self.texts.pop(0), self.is_cut, 10, 5)

    async def propose(self, request: BackendRequest) -> list[BackendOutput]:
        return [piece async for piece in propose_with(self.write, request)]


def request(*more: Any, **options: Any) -> BackendRequest:
    return BackendRequest("m", [BackendMessage("user", "Rome?"), *more], tools=[WEATHER], **options)


async def test_a_call_and_an_answer() -> None:
    """A step is one of both, with its tokens."""
    assert await Writer(ROME).propose(request()) == [
        BackendUsage(10, 5),
        ProposedCall("weather", '{"city": "Rome"}'),
    ]
    assert await Writer('{"answer": "warm"}').propose(request()) == [
        BackendUsage(10, 5),
        BackendText("warm"),
    ]


async def test_an_answer_with_a_form_is_said_as_json() -> None:
    """What the request wants as JSON is JSON text."""
    output = OutputFormat("json_object")
    pieces = await Writer('{"answer": {"a": "ü"}}').propose(request(output=output))
    assert pieces[-1] == BackendText('{"a": "ü"}')


async def test_the_same_call_is_not_made_twice() -> None:
    """A repetition, however its arguments are written, becomes an answer; both are counted."""
    made = [
        BackendCall("1", "weather", '{ "city":"Rome" }'),
        BackendCallResult("1", "weather", "21"),
    ]
    writer = Writer(ROME, '{"answer": "21 degrees"}')
    assert await writer.propose(request(*made)) == [
        BackendUsage(10, 5),
        BackendUsage(10, 5),
        BackendText("21 degrees"),
    ]
    assert "weather" in json.dumps(writer.asked[0][0])
    assert "weather" not in json.dumps(writer.asked[1][0])


async def test_another_question_may_need_the_same_call_again() -> None:
    """What was called before the user spoke again is no repetition."""
    made = [
        BackendCall("1", "weather", '{"city": "Rome"}'),
        BackendCallResult("1", "weather", "21"),
    ]
    again = request(*made, BackendMessage("assistant", "21"), BackendMessage("user", "and now?"))
    assert (await Writer(ROME).propose(again))[-1] == ProposedCall("weather", '{"city": "Rome"}')


async def test_who_has_to_call_calls() -> None:
    """`required` leaves no answer, and `none` no call."""
    writer = Writer(ROME, '{"answer": "no"}')
    await writer.propose(request(tool_choice="required"))
    await writer.propose(request(tool_choice="none"))
    assert "answer" not in json.dumps(writer.asked[0][0])
    assert "weather" not in json.dumps(writer.asked[1][0])


async def test_a_text_that_had_to_stop_is_cut() -> None:
    """Half a JSON text is no step; the limit of the request counts."""
    writer = Writer('{"answer": "hal', is_cut=True)
    assert (await writer.propose(request(max_output_tokens=7)))[-1] == Truncation(
        "max_output_tokens"
    )
    assert writer.asked[0][1] == 7
    whole = Writer('{"answer": "x"}')
    await whole.propose(request(max_output_tokens=10**6))
    assert whole.asked[0][1] == MAX_TOKENS


async def test_what_is_no_json_fails() -> None:
    """The form is enforced; where it is not, nothing is guessed."""
    with pytest.raises(BackendFailed, match="invalid JSON"):
        await Writer("hello").propose(request())


def test_a_model_that_is_not_here_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the command, or the file."""
    monkeypatch.setenv("TOOLCRIB_MODELS", str(tmp_path))
    with pytest.raises(UsageError, match="toolcrib model pull --small"):
        LlamaBackend(SMALL.name)
    with pytest.raises(UsageError, match=r"run: toolcrib model pull$"):
        LlamaBackend()
    with pytest.raises(UsageError, match="there is no model file"):
        LlamaBackend(tmp_path / "absent.gguf")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    not (model_folder() / SMALL.filename).is_file(), reason="the small model is not here"
)
async def test_the_small_model_calls_a_tool() -> None:
    """A real model, a real step."""
    pytest.importorskip("xllamacpp")
    backend = LlamaBackend(SMALL.name, threads=1)
    asked = BackendRequest(
        backend.name, [BackendMessage("user", "What is the weather in Rome?")], tools=[WEATHER]
    )
    pieces = [piece async for piece in backend.propose(asked)]
    await backend.aclose()
    assert pieces[-1] == ProposedCall("weather", '{"city": "Rome"}')
    assert isinstance(pieces[0], BackendUsage)
    assert pieces[0].input_tokens > 100


CITY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "where"}},
    "required": ["city"],
}
TOOLS = [
    BackendTool("weather", "", CITY_SCHEMA),
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
    output = OutputFormat("json_schema", "city", CITY_SCHEMA)
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
