"""Whose an item of pydantic-ai's is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolcrib.adapters.asked import Asked, Ended
from toolcrib.adapters.items import text_of

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Item


@dataclass(frozen=True, slots=True)
class PartVoice:
    """Speaks for the calls of our tools: `names` are ours by the name on the wire."""

    names: Mapping[str, str]

    def is_call(self, item: Item) -> bool:
        return item.get("type") == "function_call"

    def read(self, item: Item) -> Asked:
        wire_name = text_of(item, "name")
        name = self.names.get(wire_name, wire_name)
        return Asked(text_of(item, "call_id"), name, text_of(item, "arguments"), item, self)

    def answer(self, asked: Asked, ended: Ended) -> Item:
        return {
            "type": "function_call_output",
            "call_id": asked.call_id,
            "name": text_of(asked.item, "name"),
            "output": ended.text,
            "failure": ended.failure,
        }
