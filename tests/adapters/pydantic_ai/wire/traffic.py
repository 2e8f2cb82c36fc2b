"""What every provider's wire has in common: replies in two forms, calls, and answers to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.adapters.pydantic_ai.codecs.loopback_server import Reply

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ran:
    """A call that the provider says it ran; `id` is empty where it has none."""

    id: str
    is_answered: bool = True


@dataclass(frozen=True, slots=True)
class Cited:
    """A source that an answer names: the address of a page, or what names a document; `text` is the
    piece of the answer that it marks, None where it marks none.
    """

    source: str
    text: str | None = None
    is_web: bool = True


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a response says that it cost; `further` are those of other models, in and out."""

    input: int
    output: int
    further: tuple[int, int] = (0, 0)

    def __add__(self, other: Tokens) -> Tokens:
        further = self.further[0] + other.further[0], self.further[1] + other.further[1]
        return Tokens(self.input + other.input, self.output + other.output, further)


@dataclass(frozen=True, slots=True)
class Sent:
    """The JSON of a call that the provider ran, and of its result where that came apart."""

    call: Json
    result: Json | None = None


class Wire(Protocol):
    """How one provider speaks. A body is a whole response, events are the same as a stream."""

    def is_body(self, body: Json) -> bool:
        """Whether it is what a model of this provider said."""
        ...

    def is_event(self, event: Json) -> bool:
        """Whether it is a piece of a stream of this provider's."""
        ...

    def streams(self, events: Sequence[Json]) -> Iterator[list[Json]]:
        """Recordings may hold several streams, one after the other."""
        ...

    def events_of(self, body: Json) -> list[Json]:
        """The stream that the provider would send for a response."""
        ...

    def body_of(self, events: Sequence[Json]) -> Json:
        """The response that a stream adds up to."""
        ...

    def encode(self, events: Sequence[Json]) -> Reply:
        """The stream as bytes."""
        ...

    def ran(self, body: Json) -> list[Ran]:
        """What the provider ran, in order."""
        ...

    def asked(self, body: Json) -> list[str]:
        """The ids of calls that wait for us, or their names where there are no ids."""
        ...

    def answered(self, request: Json) -> list[str]:
        """The ids or names of the calls that the last message of a request answers."""
        ...

    def text(self, body: Json) -> str:
        """All that the model says to the user."""
        ...

    def cited(self, body: Json) -> list[Cited]:
        """Every source that the provider names for that text, in order."""
        ...

    def tokens(self, body: Json) -> Tokens:
        """What the response cost."""
        ...

    def sent(self, body: Json) -> dict[str, Sent]:
        """The JSON of every call that the provider ran and that has an id, by that id."""
        ...

    def is_paused(self, body: Json) -> bool:
        """Whether the provider stopped in the middle, and goes on when it is asked again."""
        ...

    def is_whole(self, body: Json) -> bool:
        """Whether the response ended as it should: neither cut off, refused nor failed."""
        ...

    def done(self) -> Json:
        """A plain last answer."""
        ...


def pieces(text: str, count: int = 3) -> list[str]:
    """A text in about so many pieces."""
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]


def sse(events: Sequence[Json], name: str = "type", end: str = "") -> Reply:
    """Server-sent events; `name` is the field that names each."""
    head = [f"event: {each[name]}\n" if isinstance(each.get(name), str) else "" for each in events]
    data = [f"data: {json.dumps(each)}\n\n" for each in events]
    text = "".join(map("".join, zip(head, data, strict=True))) + end
    return Reply(text.encode(), "text/event-stream")


def split_at(events: Sequence[Json], starts: Sequence[bool]) -> Iterator[list[Json]]:
    """The events in lists, a new one wherever one `starts`."""
    found: list[Json] = []
    for event, is_start in zip(events, starts, strict=True):
        if is_start and found:
            yield found
            found = []
        found.append(event)
    if found:
        yield found
