"""Recorded traffic as scripts for the provider: every response as a body and as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adapters.openai.scripted_provider import ENDINGS, Events, Json, body_of, events_of


@dataclass(frozen=True, slots=True)
class Recorded:
    """One response of a provider, in both forms; the one that was not recorded is made."""

    body: Json
    events: Events
    status: int = 200

    @property
    def items(self) -> list[Json]:
        return self.body.get("output") or []

    @property
    def is_broken(self) -> bool:
        """Whether the stream broke off with an error of its own."""
        return any(event["type"] == "error" for event in self.events.events)


def recorded(path: Path) -> list[Recorded]:
    """The responses in a recording, in order. Other endpoints and providers are passed over."""
    interactions: list[Any] = json.loads(path.read_text("utf-8"))["interactions"]
    return [found for each in interactions for found in _responses(each)]


def _responses(interaction: Json) -> Iterator[Recorded]:
    body: Any = interaction.get("response")
    status: int = interaction.get("status") or 200
    if status >= 400:
        yield Recorded(body, Events([]), status)
    elif _is_response(body):
        yield Recorded(body, Events(events_of(body)))
    for events in _streams(interaction.get("events") or []):
        yield Recorded(body_of(events), Events(events))


def _is_response(body: Any) -> bool:
    match body:
        case {"object": "response", "output": list()}:
            return True
        case _:
            return False


def _streams(events: list[Json]) -> Iterator[list[Json]]:
    """One list of events may hold several streams, one after the other."""
    stream: list[Json] = []
    for event in events:
        stream.append(event)
        if event.get("type") in ENDINGS:
            yield stream
            stream = []
