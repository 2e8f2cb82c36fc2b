"""Backends that call one hosted tool with what the user says, and tell what it answered."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from openai import AsyncOpenAI

from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    ProposedCall,
)


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def python(request: BackendRequest) -> Sequence[BackendOutput]:
    """Run what the user says as Python, then repeat the answer."""
    return _relay(request, "python", "code")


def relay(request: BackendRequest) -> Sequence[BackendOutput]:
    """Call the tool that the user names, with the arguments that the user gives as JSON."""
    last = request.history[-1]
    if isinstance(last, BackendMessage):
        name, _, arguments = last.text.partition(" ")
        return [ProposedCall(name, arguments)]
    assert isinstance(last, BackendCallResult)
    return [BackendText(last.text)]


def _relay(request: BackendRequest, name: str, key: str) -> Sequence[BackendOutput]:
    last = request.history[-1]
    if isinstance(last, BackendMessage):
        return [ProposedCall(name, json.dumps({key: last.text}))]
    assert isinstance(last, BackendCallResult)
    return [BackendText(last.text)]


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
