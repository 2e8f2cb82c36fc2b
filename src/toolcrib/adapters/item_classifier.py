"""Whose an item is: a call that the provider ran, one that waits for us, or neither."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import dropwhile

from toolcrib.adapters.codec import Codec, RawItem
from toolcrib.adapters.json_fields import text_of
from toolcrib.adapters.tool_calls import CallReader, ToolCallItem
from toolcrib.adapters.tool_declarations import (
    AnyCodec,
    HostedDeclaration,
    ToolDeclarations,
    undeclared,
)

Unknown = Callable[[RawItem], HostedDeclaration | None]
"""Who speaks for an item that no codec knows; None when it is no call."""


class ItemClassifier:
    """Sorts the items of a turn. What was offered comes first; the provider may also send what
    nobody offered, and that is not lost either: its calls are recorded, and ours are answered.

    `ours` speak for what waits for an answer, and `no_calls` are types of items that are no call.
    """

    def __init__(
        self,
        declared: ToolDeclarations,
        codecs: Mapping[str, AnyCodec],
        ours: Sequence[CallReader],
        no_calls: Collection[str],
        unknown: Unknown,
    ) -> None:
        self._hosted = declared.hosted
        self._names = declared.names
        self._ours = ours
        self._no_calls = no_calls
        self._unknown = unknown
        self._unoffered = [
            HostedDeclaration(undeclared(codec.kind), codec)
            for codec in codecs.values()
            if isinstance(codec, Codec)
        ]

    def asked(self, items: Sequence[RawItem]) -> list[ToolCallItem]:
        """The calls among the items of a step that wait for an answer of ours, in order."""
        sorted_items = [(item, self.owner(item, items)) for item in items]
        return [
            owner.read(item)
            for item, owner in sorted_items
            if owner is not None and not isinstance(owner, HostedDeclaration)
        ]

    def owner(
        self, item: RawItem, items: Sequence[RawItem]
    ) -> HostedDeclaration | CallReader | None:
        """Who speaks for an item of a step: a provider-run tool, or a voice of ours."""
        offered = _first_hosted(self._hosted, item)
        if offered is not None:
            return offered
        if not _is_answered(item, items) and not self._is_theirs(item, items):
            for voice in self._ours:
                if voice.is_call(item):
                    return voice
        if text_of(item, "type") in self._no_calls:
            return None
        return _first_hosted(self._unoffered, item) or self._unknown(item)

    def is_unknown(self, item: RawItem, owner: HostedDeclaration | CallReader | None) -> bool:
        """Whether nobody knows the type of an item. If it is a call it is recorded all the same."""
        if isinstance(owner, HostedDeclaration):
            return owner not in self._hosted and owner not in self._unoffered
        return owner is None and text_of(item, "type") not in self._no_calls

    def _is_theirs(self, item: RawItem, items: Sequence[RawItem]) -> bool:
        """Whether the provider ran a custom tool of its own: it has none of our names, and the
        model went on to its answer, as it cannot while a call waits.
        """
        if text_of(item, "type") != "custom_tool_call" or text_of(item, "name") in self._names:
            return False
        rest = dropwhile(lambda each: each is not item, items)
        return any(text_of(each, "type") == "message" for each in rest)


def _first_hosted(among: Sequence[HostedDeclaration], item: RawItem) -> HostedDeclaration | None:
    return next((hosted for hosted in among if hosted.is_call(item)), None)


def _is_answered(item: RawItem, items: Sequence[RawItem]) -> bool:
    """Whether the provider itself has answered: then the call was its own."""
    call_id = text_of(item, "call_id")
    return bool(call_id) and any(
        text_of(other, "call_id") == call_id and text_of(other, "type").endswith("_output")
        for other in items
    )
