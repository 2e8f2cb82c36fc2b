"""A provider with a backend that does what a test says, and the official client before it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from openai import AsyncOpenAI

from toolcrib.embedded import BackendOutput, BackendRequest, EmbeddedProvider
from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend
from toolcrib.embedded.backends.scenarios.scenario import read_scenario

Script = Callable[[BackendRequest], Sequence[BackendOutput]]


class Puppet:
    """A backend whose proposals a test makes; it remembers what it was asked."""

    is_scripted = False
    reads_images = True
    name = "puppet"

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[BackendRequest] = []
        self.is_closed = False

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        # The conversation goes on growing after this.
        self.requests.append(replace(request, history=list(request.history)))
        for piece in self.script(request):
            yield piece

    async def aclose(self) -> None:
        self.is_closed = True


@asynccontextmanager
async def served(script: Script, **options: Any) -> AsyncGenerator[tuple[AsyncOpenAI, Puppet]]:
    """A started provider that may connect to this machine: its client, and its backend."""
    puppet = Puppet(script)
    options = {"allow_egress": ["127.0.0.1"], **options}
    async with EmbeddedProvider(puppet, **options) as provider:
        yield provider.client(), puppet


def scripted(text: str) -> ScriptedBackend:
    """A backend that follows a written scenario."""
    return ScriptedBackend(read_scenario(text))


def function(name: str) -> dict[str, Any]:
    """A tool that the client runs."""
    return {
        "type": "function",
        "name": name,
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
