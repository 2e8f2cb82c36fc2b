"""Classify the items of a reply: hosted call, call for this process, message, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from toolcrib.adapters.items import ContextItem, HostedCallItem, UnknownItem
from toolcrib.adapters.json_fields import text_of

if TYPE_CHECKING:
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.items import ModelMessage, ReasoningItem, ReplyItem
    from toolcrib.adapters.tool_calls import CallReader
    from toolcrib.adapters.tool_declarations import HostedDeclaration


class ItemFormat(Protocol):
    """How one provider writes the items of a reply."""

    def read(self, raw: RawItem) -> ModelMessage | ReasoningItem | ContextItem | None:
        """An item that is no call; None for one that may be a call, or is unknown."""
        ...

    def is_answered(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        """Whether the provider itself answered a call: then the call was its own."""
        ...

    def hosted_call(self, raw: RawItem, declaration: HostedDeclaration) -> HostedCallItem:
        """The item as a call of this tool that the provider ran."""
        ...

    def unknown(self, raw: RawItem) -> HostedCallItem | UnknownItem:
        """An item of a type that no codec knows. One that is a call all the same is recorded."""
        ...

    def without_text(self, raw: RawItem) -> RawItem:
        """A message without its text, and its annotations without places."""
        ...


class ItemClassifier:
    """Reads the items of a turn. Declared tools come first; the provider may also send calls of
    tools that the prompt does not declare: hosted ones are recorded, others are answered.

    `readers` are for calls that wait for an answer, `fallbacks` (by item type) for such calls of
    tools that the prompt does not declare, `stand_ins` for hosted tools that it does not declare.
    """

    def __init__(
        self,
        hosted: Sequence[HostedDeclaration],
        readers: Sequence[CallReader],
        stand_ins: Sequence[HostedDeclaration],
        item_format: ItemFormat,
        fallbacks: Mapping[str, CallReader] | None = None,
    ) -> None:
        self._hosted = hosted
        self._readers: dict[str, list[CallReader]] = {}
        for reader in readers:
            self._readers.setdefault(reader.call_type, []).append(reader)
        self._fallbacks = fallbacks or {}
        self._stand_ins = stand_ins
        self.format = item_format

    def items(self, raws: Sequence[RawItem]) -> list[ReplyItem]:
        """The items of one step, in order."""
        return [self.item(raw, raws) for raw in raws]

    def item(self, raw: RawItem, raws: Sequence[RawItem]) -> ReplyItem:
        """One item among the items of its step."""
        declared = _owner(self._hosted, raw)
        if declared is not None:
            return self.format.hosted_call(raw, declared)
        kind = text_of(raw, "type")
        readers = [*self._readers.get(kind, ()), *filter(None, (self._fallbacks.get(kind),))]
        if readers and not self.format.is_answered(raw, raws):
            for reader in readers:
                if reader.is_call(raw, raws):
                    return reader.read(raw)
        item = self.format.read(raw)
        if item is not None:
            return item
        stand_in = _owner(self._stand_ins, raw)
        return self.format.hosted_call(raw, stand_in) if stand_in else self.format.unknown(raw)


def _owner(declarations: Sequence[HostedDeclaration], raw: RawItem) -> HostedDeclaration | None:
    for declaration in declarations:
        if declaration.is_call(raw):
            return declaration
    return None
