"""The examination of local models: its cases can be passed, and only by doing the right thing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from scripts.model_test import SETS, choose, fits, loop, read, schema_of
from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)

TOOLS: dict[str, Any] = read(SETS, "tools")
CHOICES: list[dict[str, Any]] = read(SETS, "choices")
LOOPS: list[dict[str, Any]] = read(SETS, "loops")


class Pupil:
    """Makes the calls that it was given, one after the other, and then says something."""

    name, is_scripted = "pupil", False

    def __init__(self, calls: list[tuple[str, Any]], says: str) -> None:
        self.calls = calls
        self.says = says

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        done = sum(isinstance(turn, BackendCallResult) for turn in request.history)
        assert isinstance(request.history[0], BackendMessage)
        if done < len(self.calls):
            tool, arguments = self.calls[done]
            yield ProposedCall(tool, json.dumps(arguments))
        else:
            yield BackendText(self.says)

    async def aclose(self) -> None: ...


def test_the_sets_are_whole() -> None:
    """Twenty choices and twelve loops; every tool is one of the file, and offered."""
    assert (len(CHOICES), len(LOOPS)) == (20, 12)
    for case in CHOICES:
        assert {*case["offers"]} <= {*TOOLS}
        assert case["tool"] is None or case["tool"] in case["offers"]
    for case in LOOPS:
        assert {call["tool"] for call in case["calls"]} <= {*case["offers"]} <= {*TOOLS}


@pytest.mark.parametrize("case", [case for case in CHOICES if case["tool"]])
def test_expected_arguments_fit_the_tools(case: dict[str, Any]) -> None:
    """What is expected can be written: every name and every type is the schema's."""
    schema: dict[str, Any] = schema_of(TOOLS[case["tool"]])
    del schema["required"]
    validator: Any = Draft202012Validator(schema)
    assert list(validator.iter_errors(case["arguments"])) == []


def test_arguments_fit_by_what_they_hold() -> None:
    """Texts are contained, whatever their case; anything else is equal, and of the same type."""
    assert fits({"a": "In ROME now", "n": 3, "more": 1}, {"a": "rome", "n": 3})
    assert not fits({"a": "Oslo"}, {"a": "rome"})
    assert not fits({"n": True}, {"n": 1})
    assert not fits({}, {"n": 1})
    assert not fits([], {})


async def test_a_choice_is_passed_by_the_right_call_alone() -> None:
    """Another tool, other arguments, or words instead of a call do not pass."""
    [case] = [case for case in CHOICES if case["tool"] == "set_light"]
    right = ("set_light", {"room": "Kitchen", "is_on": False})
    other: tuple[str, Any] = ("set_light", {"room": "Kitchen", "is_on": True})
    wrong: list[list[tuple[str, Any]]] = [[("weather", {"city": "Rome"})], [other], []]
    assert (await choose(Pupil([right], ""), TOOLS, case)).is_passed
    for calls in wrong:
        assert not (await choose(Pupil(calls, "done"), TOOLS, case)).is_passed
    [small_talk, *_] = [case for case in CHOICES if case["tool"] is None]
    assert (await choose(Pupil([], "hello"), TOOLS, small_talk)).is_passed
    assert not (await choose(Pupil([right], ""), TOOLS, small_talk)).is_passed


@pytest.mark.parametrize(
    ("cities", "says", "is_passed"),
    [
        (["Oslo", "Madrid"], "It is warmer in Madrid.", True),
        (["Oslo", "Madrid"], "Oslo is warmer than Madrid.", False),
        (["Oslo"], "It is warmer in Madrid.", False),
        ([], "It is warmer in Madrid.", False),
        (["Oslo", "Madrid"], "I cannot say.", False),
    ],
)
async def test_a_loop_is_passed_by_calls_and_by_what_they_answered(
    cities: list[str], says: str, is_passed: bool
) -> None:
    """A right answer without its calls does not pass, nor a wrong one with them."""
    pupil = Pupil([("weather", {"city": city}) for city in cities], says)
    async with EmbeddedProvider(pupil) as provider:
        result = await loop(provider.client(), "pupil", TOOLS, LOOPS[-1])
    assert result.is_passed is is_passed
