"""The items of one turn: what is sent, and what came back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolcrib.adapters.codec import Item
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
    is_paused: bool = False
    """Whether the provider paused: asked again, it goes on with the same answer."""


@dataclass(slots=True)
class Conversation:
    """Grows by appending, never by copying: a step costs the same however long the history is."""

    history: History
    unsent: list[Item] = field(default_factory=list[Item], repr=False)
    """What the next request must bring; with a client-kept history, everything so far. It only
    grows, until another list takes its place.
    """
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
    """What the provider sent since we last said something."""
    is_paused: bool = False

    def say(self, item: Item) -> None:
        """Add an item of ours: the prompt, or the output of a call."""
        self.unsent.append(item)

    def hear(self, heard: Heard) -> None:
        """Add what the provider answered, verbatim."""
        self.steps += 1
        self.spend(heard)
        self.last_items = [*self.last_items, *heard.items] if self.is_paused else heard.items
        self.is_paused = heard.is_paused
        self.items.extend(heard.items)
        if self.history == "server" and heard.response_id is not None:
            self.previous_response_id = heard.response_id
            self.unsent = []
        else:
            self.unsent.extend(heard.items)

    def spend(self, heard: Heard) -> None:
        """Count what an answer cost, also one that is of no use."""
        self.usage += heard.usage
        self.model = heard.model or self.model
        if heard.request_id:
            self.request_ids.append(heard.request_id)
