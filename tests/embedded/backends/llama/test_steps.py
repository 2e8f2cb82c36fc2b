"""Numbered tasks are done one step at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcrib.embedded.backend import (
    BackendCall,
    BackendCallResult,
    BackendInput,
    BackendMessage,
    BackendRequest,
    BackendText,
    BackendTool,
    ProposedCall,
)
from toolcrib.embedded.backends.llama.backend import Completion, propose_with
from toolcrib.embedded.backends.llama.steps import MAX_ATTEMPTS, next_step, steps_in
from toolcrib.embedded.backends.llama.transcript import ChatMessage

TASK = """Find out and order.

1. search: what does it cost,
   in EUR?
2. python: compute it
3) order it with the tool order, if it is cheap
4. Answer.
"""
FAILURE = "Traceback (most recent call last):\nNameError: name 'math' is not defined"
TOOLS = tuple(
    BackendTool(name, f"{name} something", {"type": "object", "properties": {}})
    for name in ("search", "python", "order")
)


def request(*results: tuple[str, str]) -> BackendRequest:
    """A request after these calls, each with its result."""
    history: list[BackendInput] = [BackendMessage("user", TASK)]
    for number, (tool, text) in enumerate(results):
        history.append(BackendCall(str(number), tool, json.dumps({"try": number})))
        history.append(BackendCallResult(str(number), tool, text))
    return BackendRequest(model="m", history=tuple(history), tools=TOOLS)


def test_the_steps_of_a_task_are_its_numbered_lines() -> None:
    """A step may go over several lines. Numbers that do not run are no steps."""
    assert steps_in(TASK)[0] == "search: what does it cost, in EUR?"
    assert len(steps_in(TASK)) == 4
    assert steps_in("In 2024 we sold 7.\n3. of May\n9. of June") == []
    assert steps_in("1. only one") == []


@pytest.mark.parametrize(
    ("results", "number", "tool"),
    [
        ((), 1, "search"),
        ((("search", "7 EUR"),), 2, "python"),
        ((("search", "7 EUR"), ("python", FAILURE)), 2, "python"),
        ((("search", "7 EUR"), *[("python", FAILURE)] * MAX_ATTEMPTS), 3, "order"),
        ((("search", "7 EUR"), ("python", "49"), ("order", "done")), 4, None),
    ],
)
def test_the_next_step_is_the_first_that_is_not_done(
    results: tuple[tuple[str, str], ...], number: int, tool: str | None
) -> None:
    """A program that fails is tried again, and not for ever."""
    step = next_step(request(*results))

    assert step is not None
    assert (step.number, step.tool and step.tool.name) == (number, tool)


def test_a_task_without_steps_is_left_to_the_model() -> None:
    """So is one whose steps name no tool."""
    plain = BackendMessage("user", "1. think\n2. answer")

    assert next_step(BackendRequest(model="m", history=(plain,), tools=TOOLS)) is None


class Writer:
    """Writes what a schema allows, and keeps what it was asked."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.messages: list[ChatMessage] = []
        self.schema: dict[str, Any] = {}

    async def __call__(
        self, messages: list[ChatMessage], schema: dict[str, Any], most: int
    ) -> Completion:
        self.messages, self.schema = messages, schema
        return Completion(self.texts.pop(0), False, 1, 1)


async def test_only_the_tool_of_the_step_can_be_called() -> None:
    """The model chooses the arguments."""
    writer = Writer('{"tool": "python", "arguments": {}}')

    pieces = [piece async for piece in propose_with(writer, request(("search", "7 EUR")))]

    assert writer.schema["properties"]["tool"] == {"const": "python"}
    assert "Do only step 2 of 4 now: python: compute it" in writer.messages[-1]["content"]
    assert isinstance(pieces[-1], ProposedCall)


async def test_a_step_with_a_condition_may_be_left_out() -> None:
    """The model answers instead."""
    writer = Writer('{"answer": "It is too expensive."}')

    pieces = [
        piece
        async for piece in propose_with(writer, request(("search", "7 EUR"), ("python", "49")))
    ]

    assert len(writer.schema["anyOf"]) == 2
    assert pieces[-1] == BackendText("It is too expensive.")


async def test_a_failed_try_is_told_and_not_shown() -> None:
    """A small model would copy the program that failed."""
    writer = Writer('{"tool": "python", "arguments": {}}')

    async for _ in propose_with(writer, request(("search", "7 EUR"), ("python", FAILURE))):
        pass

    said = [message["content"] for message in writer.messages]
    assert "NameError: name 'math' is not defined" in said[-1]
    assert not any('"try": 1' in text for text in said)
    assert any('"try": 0' in text for text in said)
