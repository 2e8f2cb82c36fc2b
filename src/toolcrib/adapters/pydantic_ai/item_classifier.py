"""Classify the items of a pydantic-ai response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from toolcrib.adapters.codec import RawItem, failure_of
from toolcrib.adapters.items import (
    ContextItem,
    HostedCallItem,
    ModelMessage,
    ReasoningItem,
    ReplyItem,
    ToolCallEnd,
    ToolCallItem,
    ToolOutputItem,
    UnknownItem,
    mapping_of,
    maybe_text,
    text_of,
)
from toolcrib.adapters.pydantic_ai.codecs.mcp import LISTING
from toolcrib.adapters.pydantic_ai.codecs.unknown import UnknownCallCodec
from toolcrib.adapters.pydantic_ai.parts import (
    FILE,
    GROQ,
    NATIVE_CALL,
    NATIVE_RETURN,
    RESPONSE,
    TEXT,
    THINKING,
    TOOL_CALL,
    TOOL_RETURN,
    read_message,
    reasoning_in,
    without_text,
)
from toolcrib.adapters.tool_calls import (
    CallReader,
    ClientCallReader,
    ItemClassifier,
    redacted_arguments,
)
from toolcrib.adapters.tool_declarations import HostedDeclaration, ToolDeclarations, undeclared
from toolcrib.adapters.turn_tools import ProviderProfile

if TYPE_CHECKING:
    from toolcrib.tools.redaction import Redactor

_CONTEXT: Final = frozenset({RESPONSE, NATIVE_RETURN, "compaction", FILE, TOOL_RETURN})
"""Types of items that are neither message nor call."""


@dataclass(frozen=True, slots=True)
class PartCallReader:
    """Reads the calls of functions. `names` are the tools' own names by the name on the wire."""

    names: Mapping[str, str]
    call_type: str = TOOL_CALL

    def is_call(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        return True

    def read(self, raw: RawItem) -> ToolCallItem:
        wire_name = text_of(raw, "name")
        name = self.names.get(wire_name, wire_name)
        return ToolCallItem(text_of(raw, "call_id"), name, text_of(raw, "arguments"), self, raw)

    def output(self, call: ToolCallItem, end: ToolCallEnd) -> ToolOutputItem:
        name = text_of(call.raw, "name")
        raw = {
            "type": TOOL_RETURN,
            "call_id": call.call_id,
            "name": name,
            "output": end.text,
            "failure": end.failure,
        }
        return ToolOutputItem(call.call_id, name, end.text, end.failure, raw)

    def redacted(self, raw: RawItem, redactor: Redactor) -> RawItem:
        return redacted_arguments(raw, redactor)


class PartFormat:
    """Reads the items that `parts.items_of` makes of a response."""

    def read(self, raw: RawItem) -> ModelMessage | ReasoningItem | ContextItem | None:
        kind = text_of(raw, "type")
        if kind == TEXT:
            return read_message(raw)
        if kind == THINKING:
            return ReasoningItem(raw, reasoning_in(raw))
        return ContextItem(raw) if kind in _CONTEXT else None

    def is_answered(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        return False

    def hosted_call(self, raw: RawItem, declaration: HostedDeclaration) -> HostedCallItem:
        status = maybe_text(raw, "status")
        return HostedCallItem(declaration, text_of(raw, "id"), status, failure_of(raw), raw)

    def unknown(self, raw: RawItem) -> HostedCallItem | UnknownItem:
        kind = text_of(raw, "type") or "unknown"
        if kind != NATIVE_CALL:
            return UnknownItem(kind, raw)
        capability = text_of(raw, "name").partition(":")[0] or "unknown"
        stand_in = HostedDeclaration(undeclared(capability), UnknownCallCodec("", ()))
        return HostedCallItem(stand_in, text_of(raw, "id"), None, failure_of(raw), raw, kind)

    def without_text(self, raw: RawItem) -> RawItem:
        return without_text(raw)

    def said(self, text: str) -> list[RawItem]:
        return [
            {"type": RESPONSE, "part": {}},
            {"type": TEXT, "text": text, "citations": [], "part": {"part_kind": "text"}},
        ]


_FORMAT: Final = PartFormat()


def classifier_of(declared: ToolDeclarations, profile: ProviderProfile) -> ItemClassifier:
    """The classifier of a turn. Every call for this process comes as a call of a function."""
    readers: list[CallReader] = [
        ClientCallReader(client.codec, client.tool.name) for client in declared.client_run
    ]
    readers.append(PartCallReader(declared.names))
    return PartClassifier(declared.hosted, readers, profile.stand_ins, _FORMAT)


class PartClassifier(ItemClassifier):
    """Classifies parts. A server's list of its tools comes as a call, and is none."""

    def item(self, raw: RawItem, raws: Sequence[RawItem]) -> ReplyItem:
        if _is_listing(raw):
            return ContextItem(raw)
        item = super().item(raw, raws)
        if isinstance(item, ReasoningItem) and maybe_text(raws[0], "provider") == GROQ:
            return replace(item, is_continued=True)
        return item


def _is_listing(raw: RawItem) -> bool:
    action = text_of(mapping_of(raw, "arguments"), "action")
    return raw.get("type") == NATIVE_CALL and action == LISTING
