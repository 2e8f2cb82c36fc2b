"""A provider with a brain that does what a test says, and the official client before it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from openai import AsyncOpenAI

from toolcrib.embedded import LocalProvider, Piece, Question
from toolcrib.embedded.backends.scripted.backend import ScriptedBrain
from toolcrib.embedded.backends.scripted.scenario import read_scenario

Script = Callable[[Question], Sequence[Piece]]


class Puppet:
    """A brain whose proposals a test makes; it remembers what it was asked."""

    is_scripted = False
    name = "puppet"

    def __init__(self, script: Script) -> None:
        self.script = script
        self.questions: list[Question] = []
        self.is_closed = False

    async def propose(self, question: Question) -> AsyncIterator[Piece]:
        # The conversation goes on growing after this.
        self.questions.append(replace(question, turns=list(question.turns)))
        for piece in self.script(question):
            yield piece

    async def aclose(self) -> None:
        self.is_closed = True


@asynccontextmanager
async def served(script: Script, **options: Any) -> AsyncGenerator[tuple[AsyncOpenAI, Puppet]]:
    """A started provider: its client, and its brain."""
    puppet = Puppet(script)
    async with LocalProvider(puppet, **options) as provider:
        yield provider.client(), puppet


def scripted(text: str) -> ScriptedBrain:
    """A brain that follows a written scenario."""
    return ScriptedBrain(read_scenario(text))


def function(name: str) -> dict[str, Any]:
    """A tool that the client runs."""
    return {
        "type": "function",
        "name": name,
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
