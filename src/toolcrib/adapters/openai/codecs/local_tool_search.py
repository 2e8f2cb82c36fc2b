"""A search for tools that runs here, on the Responses API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from toolcrib.adapters.client_calls import AnyProviderTool, ClientCall, ClientCodec
from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import json_object_of, mapping_of, mappings_of, maybe_text, text_of
from toolcrib.adapters.openai.codecs.tool_search import FORCED
from toolcrib.tools.prepared import prepare
from toolcrib.tools.tool_search import KIND, FoundTool, LocalToolSearchConfig, ToolSearchResult


class OpenAILocalToolSearchCodec(ClientCodec):
    """Speaks for `tool_search` on the client. The answer has no place for a text: when the search
    failed it has no tools and is incomplete.
    """

    kind: ClassVar[str] = KIND
    provider: ClassVar[str] = "openai"
    config_type: ClassVar[type[Any]] = LocalToolSearchConfig
    call_type: ClassVar[str] = "tool_search_call"
    output_type: ClassVar[str] = "tool_search_output"

    def serialize(self, tool: AnyProviderTool) -> dict[str, Any]:
        declaration = prepare(tool).declaration
        return {
            "type": "tool_search",
            "execution": "client",
            "description": declaration.description,
            "parameters": declaration.parameters,
        }

    def choice(self, tool: AnyProviderTool) -> Any:
        return dict(FORCED)

    def is_call(self, item: Item) -> bool:
        return super().is_call(item) and text_of(item, "execution") != "server"

    def arguments(self, item: Item) -> dict[str, Any]:
        return mapping_of(item, "arguments") or json_object_of(item, "arguments")

    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        return {
            "execution": "client",
            "status": "completed" if success else "incomplete",
            "tools": _entries(_found(value)) if success else [],
        }


def _found(value: Any) -> Iterable[FoundTool]:
    """The tools of a result, also when it was read back from a ledger as plain JSON."""
    if isinstance(value, ToolSearchResult):
        return value.tools
    return [
        FoundTool(
            text_of(each, "name"),
            text_of(each, "description"),
            mapping_of(each, "parameters"),
            maybe_text(each, "namespace"),
        )
        for each in mappings_of(mapping_of({"value": value}, "value"), "tools")
    ]


def _entries(tools: Iterable[FoundTool]) -> list[dict[str, Any]]:
    """Tools of one group go together under its name, where its first tool stands."""
    entries: list[dict[str, Any]] = []
    groups: dict[str, list[dict[str, Any]]] = {}
    for tool in tools:
        if tool.namespace is None:
            entries.append(_function(tool))
            continue
        if tool.namespace not in groups:
            groups[tool.namespace] = []
            entries.append(_group(tool.namespace, groups[tool.namespace]))
        groups[tool.namespace].append(_function(tool))
    return entries


def _function(tool: FoundTool) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
        "defer_loading": True,
    }


def _group(name: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": name, "tools": tools}
