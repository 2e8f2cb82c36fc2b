"""The items of one turn: what is sent, and what came back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import mapping_of, maybe_int
from toolcrib.adapters.openai.outgoing import Outgoing
from toolcrib.adapters.response import Usage

History = Literal["server", "client"]
"""Who keeps what was said: the provider (`previous_response_id`), or we (everything is sent)."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer of the provider."""

    items: list[Item] = field(repr=False)
    usage: Usage
    response_id: str | None = None
    request_id: str | None = None
    model: str | None = None


@dataclass(slots=True)
class Conversation:
    """Grows by appending, never by copying: a step costs the same however long the history is."""

    history: History
    unsent: Outgoing = field(default_factory=Outgoing)
    """What the next request must bring; with a client-kept history, everything so far."""
    items: list[Item] = field(default_factory=list[Item], repr=False)
    """Every item the provider has sent, over all steps."""
    previous_response_id: str | None = None
    steps: int = 0
    calls: int = 0
    """How many calls of ours the model has asked for."""
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    request_ids: list[str] = field(default_factory=list[str])
    last_items: list[Item] = field(default_factory=list[Item], repr=False)

    def say(self, item: Item) -> None:
        """Add an item of ours: the prompt, or the output of a call."""
        self.unsent.add((item,))

    def hear(self, heard: Heard) -> None:
        """Add what the provider answered, verbatim."""
        self.steps += 1
        self.spend(heard)
        self.last_items = heard.items
        self.items.extend(heard.items)
        if self.history == "server" and heard.response_id is not None:
            self.previous_response_id = heard.response_id
            self.unsent = Outgoing()
        else:
            self.unsent.add(heard.items)

    def spend(self, heard: Heard) -> None:
        """Count what an answer cost, also one that is of no use."""
        self.usage += heard.usage
        self.model = heard.model or self.model
        if heard.request_id:
            self.request_ids.append(heard.request_id)


def usage_of(body: dict[str, Any]) -> Usage:
    """The tokens of one response; what the provider does not tell counts as none."""
    usage = mapping_of(body, "usage")
    cached = maybe_int(mapping_of(usage, "input_tokens_details"), "cached_tokens")
    reasoning = maybe_int(mapping_of(usage, "output_tokens_details"), "reasoning_tokens")
    return Usage(
        requests=1,
        input_tokens=maybe_int(usage, "input_tokens") or 0,
        output_tokens=maybe_int(usage, "output_tokens") or 0,
        cached_tokens=cached or 0,
        reasoning_tokens=reasoning or 0,
    )
