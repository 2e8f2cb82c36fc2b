"""Whose an item is: a call that the provider ran, one that waits for us, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Final

from toolcrib.adapters.asked import Asked, ClientVoice, CustomVoice, FunctionVoice, Voice
from toolcrib.adapters.client_calls import ClientCodec
from toolcrib.adapters.codec import Codec, Item
from toolcrib.adapters.declared import AnyCodec, Declared, Hosted
from toolcrib.adapters.hosted_view import undeclared
from toolcrib.adapters.items import text_of
from toolcrib.adapters.openai.codecs.mcp_approval import OpenAIMcpApprovals
from toolcrib.adapters.openai.codecs.unknown import OpenAIUnknownCodec, is_any_call, kind_of

NO_CALLS: Final = frozenset(
    {
        "message",
        "reasoning",
        "compaction",
        "compaction_summary",
        "function_call_output",
        "custom_tool_call_output",
        "shell_call_output",
        "tool_search_output",
        "mcp_list_tools",
    }
)
"""Item types that are no call: they belong to the answer, to the tool or to a call elsewhere."""


class Sorter:
    """Sorts the items of a turn. What was offered comes first; the provider may also send what
    nobody offered, and that is not lost either: its calls are recorded, and ours are answered.
    """

    def __init__(
        self,
        declared: Declared,
        codecs: Mapping[str, AnyCodec],
        client_codecs: Sequence[ClientCodec],
    ) -> None:
        self._hosted = declared.hosted
        self._names = names = declared.names
        self._ours: list[Voice] = [FunctionVoice(names), CustomVoice(names)]
        self._ours += [ClientVoice(each.codec, each.tool.name) for each in declared.client_run]
        self._ours += [
            ClientVoice(_approvals(hosted), hosted.tool.name)
            for hosted in declared.hosted
            if hosted.is_mcp
        ]
        self._unoffered_ours: list[Voice] = [
            *(ClientVoice(codec, codec.kind) for codec in client_codecs),
            ClientVoice(OpenAIMcpApprovals(), "mcp"),
        ]
        self._unoffered = [
            Hosted(undeclared(codec.kind), codec)
            for codec in codecs.values()
            if isinstance(codec, Codec)
        ]

    def asked(self, items: Sequence[Item]) -> list[Asked]:
        """The calls among the items of a step that wait for an answer of ours, in order."""
        sorted_items = [(item, self.owner(item, items)) for item in items]
        return [
            owner.read(item)
            for item, owner in sorted_items
            if owner is not None and not isinstance(owner, Hosted)
        ]

    def owner(self, item: Item, items: Sequence[Item]) -> Hosted | Voice | None:
        """Who speaks for an item of a step: a provider-run tool, or a voice of ours."""
        offered = _first_hosted(self._hosted, item)
        if offered is not None:
            return offered
        if not _is_answered(item, items) and not self._is_theirs(item, items):
            for voice in (*self._ours, *self._unoffered_ours):
                if voice.is_call(item):
                    return voice
        return _first_hosted(self._unoffered, item) or _unknown(item)

    def _is_theirs(self, item: Item, items: Sequence[Item]) -> bool:
        """Whether the provider ran a custom tool of its own: it has none of our names, and the
        model went on to its answer, as it cannot while a call waits.
        """
        if text_of(item, "type") != "custom_tool_call" or text_of(item, "name") in self._names:
            return False
        rest = dropwhile(lambda each: each is not item, items)
        return any(text_of(each, "type") == "message" for each in rest)


def _unknown(item: Item) -> Hosted | None:
    if text_of(item, "type") in NO_CALLS or not is_any_call(item):
        return None
    kind = kind_of(item)
    return Hosted(undeclared(kind), OpenAIUnknownCodec(kind))


def _approvals(hosted: Hosted) -> OpenAIMcpApprovals:
    return OpenAIMcpApprovals(hosted.tool.config.server_label, hosted.secrets)


def _first_hosted(among: Sequence[Hosted], item: Item) -> Hosted | None:
    return next((hosted for hosted in among if hosted.is_call(item)), None)


def _is_answered(item: Item, items: Sequence[Item]) -> bool:
    """Whether the provider itself has answered: then the call was its own."""
    call_id = text_of(item, "call_id")
    return bool(call_id) and any(
        text_of(other, "call_id") == call_id and text_of(other, "type").endswith("_output")
        for other in items
    )
