"""How the items of pydantic-ai's responses are sorted.

Whose an item of pydantic-ai's is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.item_classifier import ItemClassifier
from toolcrib.adapters.json_fields import mapping_of, text_of
from toolcrib.adapters.pydantic_ai.codecs.mcp import LISTING
from toolcrib.adapters.pydantic_ai.codecs.unknown import KIND, UnknownCallCodec
from toolcrib.adapters.pydantic_ai.parts import NATIVE_CALL, NATIVE_RETURN, RESPONSE
from toolcrib.adapters.tool_calls import (
    CallReader,
    ClientCallReader,
    ClientCodec,
    ToolCallEnd,
    ToolCallItem,
)
from toolcrib.adapters.tool_declarations import (
    AnyCodec,
    HostedDeclaration,
    ToolDeclarations,
    undeclared,
)


@dataclass(frozen=True, slots=True)
class PartVoice:
    """Speaks for the calls of our tools: `names` are ours by the name on the wire."""

    names: Mapping[str, str]

    def is_call(self, item: RawItem) -> bool:
        return item.get("type") == "function_call"

    def read(self, item: RawItem) -> ToolCallItem:
        wire_name = text_of(item, "name")
        name = self.names.get(wire_name, wire_name)
        return ToolCallItem(text_of(item, "call_id"), name, text_of(item, "arguments"), item, self)

    def answer(self, asked: ToolCallItem, ended: ToolCallEnd) -> RawItem:
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
    declared: ToolDeclarations, codecs: Mapping[str, AnyCodec], client_codecs: Sequence[ClientCodec]
) -> ItemClassifier:
    """The sorter of a turn. Every call that waits for us comes as a call of a function."""
    ours: list[CallReader] = [
        ClientCallReader(each.codec, each.tool.name) for each in declared.client_run
    ]
    ours.append(PartVoice(declared.names))
    # A call that no other codec speaks for is told under the name that its provider has for it.
    spoken = {kind: codec for kind, codec in codecs.items() if kind != KIND}
    return PartSorter(declared, spoken, ours, NO_CALLS, _unknown)


class PartSorter(ItemClassifier):
    """Sorts parts. A server that lists its tools is asked for them, and not called."""

    def owner(
        self, item: RawItem, items: Sequence[RawItem]
    ) -> HostedDeclaration | CallReader | None:
        return None if _is_listing(item) else super().owner(item, items)

    def is_unknown(self, item: RawItem, owner: HostedDeclaration | CallReader | None) -> bool:
        return not _is_listing(item) and super().is_unknown(item, owner)


def _is_listing(item: RawItem) -> bool:
    action = text_of(mapping_of(item, "arguments"), "action")
    return item.get("type") == NATIVE_CALL and action == LISTING


def _unknown(item: RawItem) -> HostedDeclaration | None:
    if item.get("type") != NATIVE_CALL:
        return None
    kind = text_of(item, "name").partition(":")[0] or "unknown"
    return HostedDeclaration(undeclared(kind), UnknownCallCodec("", ()))
