"""Recorded traffic as scripts: every response of a model as a body and as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adapters.json_fields import mapping_of, mappings_of
from tests.adapters.pydantic_ai.codecs.loopback_server import Reply
from tests.adapters.pydantic_ai.wire.anthropic import AnthropicWire
from tests.adapters.pydantic_ai.wire.bedrock import BedrockWire
from tests.adapters.pydantic_ai.wire.chat import ChatWire
from tests.adapters.pydantic_ai.wire.google import GoogleWire
from tests.adapters.pydantic_ai.wire.interactions import InteractionsWire
from tests.adapters.pydantic_ai.wire.responses import ResponsesWire
from tests.adapters.pydantic_ai.wire.traffic import Json, Wire

INTERACTIONS = "google-interactions"
"""What is spoken to one of our own models. In the support matrix it is Google."""
WIRES: Mapping[str, Wire] = {
    "anthropic": AnthropicWire(),
    "bedrock": BedrockWire(),
    "google": GoogleWire(),
    INTERACTIONS: InteractionsWire(),
    "openai-responses": ResponsesWire(),
    "openai-chat": ChatWire(),
}
SPOKEN = {("google", "google-vertex"): "google-vertex", ("openai-chat", "groq"): "groq"}
"""Providers that speak as others do, by the folder of their recordings."""
SPOKEN_IN = {
    "anthropic": "anthropic",
    "azure": "openai-responses",
    "bedrock": "bedrock",
    "google": "google",
    "google-vertex": "google",
    "groq": "openai-chat",
    "openai": "openai-responses",
    "xai": "openai-responses",
}
"""In which wire a refusal is sent, by the folder of the recording: it does not say so itself."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One response of a model; the form that was not recorded is made."""

    provider: str
    """A column of the support matrix."""
    wire: Wire
    body: Json
    events: list[Json]
    status: int = 200

    @property
    def blocking(self) -> Reply:
        return Reply(json.dumps(self.body, ensure_ascii=False).encode(), status=self.status)

    @property
    def streamed(self) -> Reply:
        return self.wire.encode(self.events) if self.status == 200 else self.blocking


def recorded(path: Path) -> list[Recorded]:
    """The responses of models in a recording, in order. Other endpoints are passed over."""
    interactions: list[Any] = json.loads(path.read_text("utf-8"))["interactions"]
    return [found for each in interactions for found in _responses(each, path.parent.name)]


def _responses(interaction: Json, folder: str) -> Iterator[Recorded]:
    body, events = mapping_of(interaction, "response"), mappings_of(interaction, "events")
    status = interaction.get("status") or 200
    if status >= 400:
        name = SPOKEN_IN.get(folder.removesuffix("-plain"), "")
        provider = SPOKEN.get((name, folder.removesuffix("-plain")), name)
        if name:
            yield Recorded(provider, WIRES[name], body, [], status)
        return
    for name, wire in WIRES.items():
        provider = SPOKEN.get((name, folder.removesuffix("-plain")), name)
        if wire.is_body(body):
            yield Recorded(provider, wire, body, wire.events_of(body))
        if events and wire.is_event(events[0]):
            for stream in wire.streams(events):
                yield Recorded(provider, wire, wire.body_of(stream), stream)


def by_provider(script: Sequence[Recorded]) -> list[list[Recorded]]:
    """The script in parts, each of one provider: some recordings pass from one to another."""
    parts: list[list[Recorded]] = []
    for each in script:
        if parts and parts[-1][-1].provider == each.provider:
            parts[-1].append(each)
        else:
            parts.append([each])
    return parts
