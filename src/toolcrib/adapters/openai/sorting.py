"""How the items of the Responses API are sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from toolcrib.adapters.asked import ClientVoice, CustomVoice, FunctionVoice, Voice
from toolcrib.adapters.client_calls import ClientCodec
from toolcrib.adapters.codec import Item
from toolcrib.adapters.declared import AnyCodec, Declared, Hosted
from toolcrib.adapters.hosted_view import undeclared
from toolcrib.adapters.openai.codecs.mcp_approval import OpenAIMcpApprovals
from toolcrib.adapters.openai.codecs.unknown import OpenAIUnknownCodec, is_any_call, kind_of
from toolcrib.adapters.sorting import Sorter

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


def sorter_of(
    declared: Declared, codecs: Mapping[str, AnyCodec], client_codecs: Sequence[ClientCodec]
) -> Sorter:
    """The sorter of a turn."""
    ours: list[Voice] = [FunctionVoice(declared.names), CustomVoice(declared.names)]
    ours += [ClientVoice(each.codec, each.tool.name) for each in declared.client_run]
    ours += [
        ClientVoice(_approvals(hosted), hosted.tool.name)
        for hosted in declared.hosted
        if hosted.is_mcp
    ]
    ours += [ClientVoice(codec, codec.kind) for codec in client_codecs]
    ours.append(ClientVoice(OpenAIMcpApprovals(), "mcp"))
    return Sorter(declared, codecs, ours, NO_CALLS, _unknown)


def _approvals(hosted: Hosted) -> OpenAIMcpApprovals:
    return OpenAIMcpApprovals(hosted.tool.config.server_label, hosted.secrets)


def _unknown(item: Item) -> Hosted | None:
    if not is_any_call(item):
        return None
    kind = kind_of(item)
    return Hosted(undeclared(kind), OpenAIUnknownCodec(kind))
