"""A provider on a real socket, and what clients without the SDK send and hear."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from httpx2 import AsyncClient
from websockets.asyncio.client import connect

from tests.embedded.scripted_provider import Puppet, Script
from tests.helpers.patience import PATIENCE
from toolcrib.embedded import EmbeddedProvider
from toolcrib.embedded.server import ProviderServer
from toolcrib.serving.tokens import Token, Tokens

Json = dict[str, Any]
SECRET = "a-secret-of-the-tests"
FINAL = ("response.completed", "response.failed", "response.incomplete", "error")


@dataclass(frozen=True, slots=True)
class Turn:
    """What was sent over a socket, and everything that came back."""

    sent: Json
    events: list[Json] = field(default_factory=list[Json])

    @property
    def last(self) -> Json:
        return self.events[-1]

    @property
    def response(self) -> Json:
        return self.last["response"]

    @property
    def code(self) -> str:
        return self.last["error"]["code"]


Step = Json | Callable[[Sequence[Turn]], Json]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a provider is reached, and its backend."""

    url: str
    puppet: Puppet
    provider: EmbeddedProvider

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """Send JSON; the status and what was answered."""
        asked = {"authorization": f"Bearer {SECRET}", **headers}
        async with AsyncClient(verify=False, timeout=PATIENCE) as client:
            answer = await client.post(f"{self.url}{path}", json=body, headers=asked)
        return answer.status_code, answer.json()

    async def stream(self, body: Json) -> list[Json]:
        """The events of a response, as they stand in the stream."""
        asked = {"authorization": f"Bearer {SECRET}"}
        async with AsyncClient(verify=False, timeout=PATIENCE) as client:
            answer = await client.post(
                f"{self.url}/responses", json={**body, "stream": True}, headers=asked
            )
        assert answer.headers["content-type"].startswith("text/event-stream")
        return list(events_of(answer.text))

    async def talk(self, *steps: Step) -> list[Turn]:
        """Send requests over one socket, each when the one before it is answered."""
        turns: list[Turn] = []
        headers = {"Authorization": f"Bearer {SECRET}"}
        address = self.url.replace("http://", "ws://") + "/responses"
        async with connect(address, additional_headers=headers, max_size=None) as socket:
            for step in steps:
                body = step(turns) if callable(step) else step
                turns.append(Turn(body))
                await socket.send(json.dumps(body))
                while not turns[-1].events or turns[-1].last["type"] not in FINAL:
                    turns[-1].events.append(json.loads(await socket.recv()))
        return turns


def events_of(text: str) -> list[Json]:
    """What a stream says, held to its form: a name that is the event's type, and an end."""
    *blocks, done = text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    events: list[Json] = []
    for block in blocks:
        name, data = block.split("\n")
        event: Mapping[str, Any] = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(dict(event))
    return events


@asynccontextmanager
async def listening(script: Script, **options: Any) -> AsyncGenerator[Place]:
    """A provider that listens on loopback."""
    puppet = Puppet(script)
    async with EmbeddedProvider(puppet, **options) as provider:
        tokens = Tokens([Token(SECRET)])
        async with ProviderServer(provider, port=0, tokens=tokens) as server:
            yield Place(server.url, puppet, provider)
