"""Brains that call one hosted tool with what the user says, and tell what it answered."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from openai import AsyncOpenAI

from toolcrib.embedded import Answered, Piece, Proposed, Question, Said, Text


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def python(question: Question) -> Sequence[Piece]:
    """Run what the user says as Python, then repeat the answer."""
    return _relay(question, "python", "code")


def relay(question: Question) -> Sequence[Piece]:
    """Call the tool that the user names, with the arguments that the user gives as JSON."""
    last = question.turns[-1]
    if isinstance(last, Said):
        name, _, arguments = last.text.partition(" ")
        return [Proposed(name, arguments)]
    assert isinstance(last, Answered)
    return [Text(last.text)]


def _relay(question: Question, name: str, key: str) -> Sequence[Piece]:
    last = question.turns[-1]
    if isinstance(last, Said):
        return [Proposed(name, json.dumps({key: last.text}))]
    assert isinstance(last, Answered)
    return [Text(last.text)]


async def run_code(client: AsyncOpenAI, code: str, container: Any, **options: Any) -> Any:
    """A response that ran the code, with its outputs."""
    options.setdefault("include", ["code_interpreter_call.outputs"])
    tools: Any = [{"type": "code_interpreter", "container": container}]
    create: Any = client.responses.create
    return await create(model="puppet", input=code, tools=tools, **options)


def logs_of(response: Any) -> str:
    """What the code wrote."""
    [call] = [each for each in response.output if each.type == "code_interpreter_call"]
    return "".join(each.logs for each in call.outputs if each.type == "logs")


async def call_tool(
    client: AsyncOpenAI, tool: dict[str, Any], name: str, arguments: Any, **options: Any
) -> Any:
    """A response in which one tool was called."""
    create: Any = client.responses.create
    asked = f"{name} {json.dumps(arguments)}"
    return await create(model="puppet", input=asked, tools=[tool], **options)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    while not is_so():
        await asyncio.to_thread(os.sched_yield)
