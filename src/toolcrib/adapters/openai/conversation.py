"""The items of one turn: what is sent, what came back, what is still to be answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import mapping_of, maybe_int, maybe_text, text_of
from toolcrib.adapters.response import Usage

History = Literal["server", "client"]
"""Who keeps what was said: the provider (`previous_response_id`), or we (everything is sent)."""


@dataclass(slots=True)
class Conversation:
    """Grows by appending, never by copying: a step costs the same however long the history is."""

    history: History
    unsent: list[Item] = field(default_factory=list[Item])
    """What the next request must bring; with a client-kept history, everything so far."""
    items: list[Item] = field(default_factory=list[Item])
    """Every item the provider has sent, over all steps."""
    previous_response_id: str | None = None
    steps: int = 0
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    request_ids: list[str] = field(default_factory=list[str])
    last_items: list[Item] = field(default_factory=list[Item])

    def say(self, item: Item) -> None:
        """Add an item of ours: the prompt, or the output of a call."""
        self.unsent.append(item)

    def hear(
        self, items: list[Item], response_id: str | None, usage: Usage, model: str | None
    ) -> None:
        """Add what the provider answered, verbatim."""
        self.steps += 1
        self.usage += usage
        self.model = model or self.model
        self.last_items = items
        self.items.extend(items)
        if self.history == "server" and response_id is not None:
            self.previous_response_id = response_id
            self.unsent = []
        else:
            self.unsent.extend(items)

    def requested(self) -> Iterator[Item]:
        """The items of the last step that wait for an output of ours."""
        answered = {text_of(item, "call_id") for item in self.last_items if _is_output(item)}
        for item in self.last_items:
            is_open = text_of(item, "call_id") not in answered
            if item.get("type") in ("function_call", "custom_tool_call") and is_open:
                yield item


def _is_output(item: Item) -> bool:
    return (maybe_text(item, "type") or "").endswith(("_output", "_call_output"))


def usage_of(body: dict[str, Any]) -> Usage:
    """The tokens of one response; what the provider does not tell counts as none."""
    usage = mapping_of(body, "usage")
    return Usage(
        requests=1,
        input_tokens=maybe_int(usage, "input_tokens") or 0,
        output_tokens=maybe_int(usage, "output_tokens") or 0,
        cached_tokens=maybe_int(mapping_of(usage, "input_tokens_details"), "cached_tokens") or 0,
        reasoning_tokens=maybe_int(mapping_of(usage, "output_tokens_details"), "reasoning_tokens")
        or 0,
    )
