"""How the items of pydantic-ai's responses are sorted.

Whose an item of pydantic-ai's is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolcrib.adapters.codec import Item
from toolcrib.adapters.hosted_view import undeclared
from toolcrib.adapters.item_classifier import Sorter
from toolcrib.adapters.items import mapping_of, text_of
from toolcrib.adapters.pydantic_ai.codecs.mcp import LISTING
from toolcrib.adapters.pydantic_ai.codecs.unknown import KIND, UnknownCallCodec
from toolcrib.adapters.pydantic_ai.parts import NATIVE_CALL, NATIVE_RETURN, RESPONSE
from toolcrib.adapters.tool_calls import Asked, ClientCodec, ClientVoice, Ended, Voice
from toolcrib.adapters.tool_declarations import AnyCodec, Declared, Hosted


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


NO_CALLS: Final = frozenset(
    {RESPONSE, NATIVE_RETURN, "message", "reasoning", "compaction", "file", "function_call_output"}
)


def sorter_of(
    declared: Declared, codecs: Mapping[str, AnyCodec], client_codecs: Sequence[ClientCodec]
) -> Sorter:
    """The sorter of a turn. Every call that waits for us comes as a call of a function."""
    ours: list[Voice] = [ClientVoice(each.codec, each.tool.name) for each in declared.client_run]
    ours.append(PartVoice(declared.names))
    # A call that no other codec speaks for is told under the name that its provider has for it.
    spoken = {kind: codec for kind, codec in codecs.items() if kind != KIND}
    return PartSorter(declared, spoken, ours, NO_CALLS, _unknown)


class PartSorter(Sorter):
    """Sorts parts. A server that lists its tools is asked for them, and not called."""

    def owner(self, item: Item, items: Sequence[Item]) -> Hosted | Voice | None:
        return None if _is_listing(item) else super().owner(item, items)

    def is_unknown(self, item: Item, owner: Hosted | Voice | None) -> bool:
        return not _is_listing(item) and super().is_unknown(item, owner)


def _is_listing(item: Item) -> bool:
    action = text_of(mapping_of(item, "arguments"), "action")
    return item.get("type") == NATIVE_CALL and action == LISTING


def _unknown(item: Item) -> Hosted | None:
    if item.get("type") != NATIVE_CALL:
        return None
    kind = text_of(item, "name").partition(":")[0] or "unknown"
    return Hosted(undeclared(kind), UnknownCallCodec("", ()))
