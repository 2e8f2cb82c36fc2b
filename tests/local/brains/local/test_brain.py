"""The local brain's steps, with texts in place of a model; and once with the small model itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.embedded import (
    Answered,
    BrainFailed,
    Called,
    Cut,
    Offer,
    OutputFormat,
    Piece,
    Proposed,
    Question,
    Said,
    Spent,
    Text,
)
from toolcrib.embedded.backends.llama.backend import MOST_TOKENS, LocalBrain, propose_with
from toolcrib.embedded.backends.llama.engine import Written
from toolcrib.embedded.weights.catalog import SMALL, model_folder
from toolcrib.errors import UsageError

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Offer("weather", "The weather in a city now.", CITY)
ROME = '{"tool": "weather", "arguments": {"city": "Rome"}}'


class Writer:
    """Writes what a test says, one text after the other."""

    def __init__(self, *texts: str, is_cut: bool = False) -> None:
        self.texts = list(texts)
        self.is_cut = is_cut
        self.asked: list[tuple[dict[str, Any], int]] = []

    async def write(self, messages: Any, schema: dict[str, Any], most: int) -> Written:
        self.asked.append((schema, most))
        return Written(self.texts.pop(0), self.is_cut, 10, 5)

    async def propose(self, question: Question) -> list[Piece]:
        return [piece async for piece in propose_with(self.write, question)]


def question(*more: Any, **options: Any) -> Question:
    return Question("m", [Said("user", "Rome?"), *more], offers=[WEATHER], **options)


async def test_a_call_and_an_answer() -> None:
    """A step is one of both, with its tokens."""
    assert await Writer(ROME).propose(question()) == [
        Spent(10, 5),
        Proposed("weather", '{"city": "Rome"}'),
    ]
    assert await Writer('{"answer": "warm"}').propose(question()) == [Spent(10, 5), Text("warm")]


async def test_an_answer_with_a_form_is_said_as_json() -> None:
    """What the request wants as JSON is JSON text."""
    output = OutputFormat("json_object")
    pieces = await Writer('{"answer": {"a": "ü"}}').propose(question(output=output))
    assert pieces[-1] == Text('{"a": "ü"}')


async def test_the_same_call_is_not_made_twice() -> None:
    """A repetition, however its arguments are written, becomes an answer; both are counted."""
    made = [Called("1", "weather", '{ "city":"Rome" }'), Answered("1", "weather", "21")]
    writer = Writer(ROME, '{"answer": "21 degrees"}')
    assert await writer.propose(question(*made)) == [
        Spent(10, 5),
        Spent(10, 5),
        Text("21 degrees"),
    ]
    assert "weather" in json.dumps(writer.asked[0][0])
    assert "weather" not in json.dumps(writer.asked[1][0])


async def test_another_question_may_need_the_same_call_again() -> None:
    """What was called before the user spoke again is no repetition."""
    made = [Called("1", "weather", '{"city": "Rome"}'), Answered("1", "weather", "21")]
    again = question(*made, Said("assistant", "21"), Said("user", "and now?"))
    assert (await Writer(ROME).propose(again))[-1] == Proposed("weather", '{"city": "Rome"}')


async def test_who_has_to_call_calls() -> None:
    """`required` leaves no answer, and `none` no call."""
    writer = Writer(ROME, '{"answer": "no"}')
    await writer.propose(question(choice="required"))
    await writer.propose(question(choice="none"))
    assert "answer" not in json.dumps(writer.asked[0][0])
    assert "weather" not in json.dumps(writer.asked[1][0])


async def test_a_text_that_had_to_stop_is_cut() -> None:
    """Half a JSON text is no step; the limit of the request counts."""
    writer = Writer('{"answer": "hal', is_cut=True)
    assert (await writer.propose(question(max_output_tokens=7)))[-1] == Cut("max_output_tokens")
    assert writer.asked[0][1] == 7
    whole = Writer('{"answer": "x"}')
    await whole.propose(question(max_output_tokens=10**6))
    assert whole.asked[0][1] == MOST_TOKENS


async def test_what_is_no_json_fails() -> None:
    """The form is enforced; where it is not, nothing is guessed."""
    with pytest.raises(BrainFailed, match="no JSON"):
        await Writer("hello").propose(question())


def test_a_model_that_is_not_here_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the command, or the file."""
    monkeypatch.setenv("TOOLCRIB_MODELS", str(tmp_path))
    with pytest.raises(UsageError, match="toolcrib model pull --small"):
        LocalBrain(SMALL.name)
    with pytest.raises(UsageError, match=r"run: toolcrib model pull$"):
        LocalBrain()
    with pytest.raises(UsageError, match="there is no model file"):
        LocalBrain(tmp_path / "absent.gguf")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    not (model_folder() / SMALL.filename).is_file(), reason="the small model is not here"
)
async def test_the_small_model_calls_a_tool() -> None:
    """A real model, a real step."""
    pytest.importorskip("xllamacpp")
    brain = LocalBrain(SMALL.name, threads=1)
    asked = Question(brain.name, [Said("user", "What is the weather in Rome?")], offers=[WEATHER])
    pieces = [piece async for piece in brain.propose(asked)]
    await brain.aclose()
    assert pieces[-1] == Proposed("weather", '{"city": "Rome"}')
    assert isinstance(pieces[0], Spent)
    assert pieces[0].input_tokens > 100
