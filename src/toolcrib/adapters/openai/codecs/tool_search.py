"""Tool search on the Responses API: run by the provider, or by a handler of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.codec import (
    Codec,
    Invocation,
    RawItem,
    failure_of,
    outcome_of,
    status_of,
    with_answer,
)
from toolcrib.adapters.items import (
    json_object_of,
    mapping_of,
    mappings_of,
    maybe_text,
    text_of,
)
from toolcrib.adapters.tool_calls import AnyProviderTool, ClientCall, ClientCodec
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.tool_search import (
    KIND,
    FoundTool,
    HandlerToolSearchConfig,
    ToolSearchConfig,
    ToolSearchResult,
)

CALL: Final = "tool_search_call"
OUTPUT: Final = "tool_search_output"

FORCED: Final = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "tool_search"}]}
"""The `tool_choice`: `tool_search` is none of its own."""


class OpenAIToolSearchCodec(Codec[ToolSearchConfig, ToolSearchResult]):
    """Speaks for `tool_search` on the server. A search and what it found are two items, which
    usually share no id.
    """

    kind = KIND
    call_types: ClassVar[frozenset[str]] = frozenset({CALL})
    result_type: ClassVar[type[Any] | None] = ToolSearchResult

    def serialize(self, tool: HostedTool[ToolSearchConfig]) -> dict[str, Any]:
        return {"type": "tool_search", "execution": "server"}

    def choice(self, tool: HostedTool[ToolSearchConfig]) -> Any:
        return dict(FORCED)

    def is_call(self, item: RawItem, tool: HostedTool[ToolSearchConfig]) -> bool:
        return super().is_call(item, tool) and not _is_local(item)

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[ToolSearchConfig]
    ) -> Invocation:
        answer = next((output for call, output in _pairs(items) if _is_same(call, item)), None)
        failure = failure_of(item) or (failure_of(answer) if answer is not None else None)
        if answer is None and failure is None:
            failure = f"{CALL} has no output"
        result = ToolSearchResult(
            () if failure else tuple(_tools_of(answer or {})), status_of(item, failure), failure
        )
        return Invocation(
            item_id=text_of(item, "id"),
            kind=self.kind,
            params=mapping_of(item, "arguments"),
            value=result,
            message=failure or result.render(),
            success=failure is None,
            error=failure,
            raw=with_answer(item, answer),
        )

    def combine(
        self,
        values: Sequence[ToolSearchResult],
        items: Sequence[RawItem],
        tool: HostedTool[ToolSearchConfig],
    ) -> ToolSearchResult | None:
        """The tools of all searches, in order."""
        if not values:
            return None
        return ToolSearchResult(
            tuple(entry for value in values for entry in value.tools), **outcome_of(values)
        )


def _is_local(item: RawItem) -> bool:
    return text_of(item, "execution") == "client"


def _pairs(items: Sequence[RawItem]) -> Iterator[tuple[RawItem, RawItem]]:
    """Each search with what it found: by id where there is one, else in order."""
    searching: deque[RawItem] = deque()
    for item in items:
        kind = text_of(item, "type")
        if kind == CALL and not _is_local(item) and failure_of(item) is None:
            searching.append(item)
        elif kind == OUTPUT and not _is_local(item) and searching:
            call = next((search for search in searching if _share_id(search, item)), searching[0])
            _drop(searching, call)
            yield call, item


def _is_same(call: RawItem, item: RawItem) -> bool:
    return call is item or (bool(text_of(call, "id")) and call.get("id") == item.get("id"))


def _share_id(call: RawItem, output: RawItem) -> bool:
    call_id = maybe_text(call, "call_id")
    return bool(call_id) and call_id == maybe_text(output, "call_id")


def _drop(searching: deque[RawItem], call: RawItem) -> None:
    # By identity: two searches may well be equal.
    others = [search for search in searching if search is not call]
    searching.clear()
    searching.extend(others)


def _tools_of(output: RawItem, namespace: str | None = None) -> Iterator[FoundTool]:
    for entry in mappings_of(output, "tools"):
        name = text_of(entry, "name") or text_of(entry, "server_label") or text_of(entry, "type")
        if entry.get("type") == "namespace" and namespace is None:
            yield from _tools_of(entry, name)
        else:
            yield FoundTool(
                name, text_of(entry, "description"), mapping_of(entry, "parameters"), namespace
            )


class OpenAIHandlerToolSearchCodec(ClientCodec):
    """Speaks for `tool_search` on the client. The answer has no place for a text: when the search
    failed it has no tools and is incomplete.
    """

    kind: ClassVar[str] = KIND
    provider: ClassVar[str] = "openai"
    config_type: ClassVar[type[Any]] = HandlerToolSearchConfig
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

    def is_call(self, item: RawItem) -> bool:
        return super().is_call(item) and text_of(item, "execution") != "server"

    def arguments(self, item: RawItem) -> dict[str, Any]:
        return mapping_of(item, "arguments") or json_object_of(item, "arguments")

    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        return {
            "execution": "client",
            "status": "completed" if success else "incomplete",
            "tools": _entries(_tools_named(value)) if success else [],
        }


def _tools_named(value: Any) -> Iterable[FoundTool]:
    """The tools of a result, also when it was read back from a ledger as plain JSON."""
    if isinstance(value, ToolSearchResult):
        return value.tools
    return [
        FoundTool(
            text_of(entry, "name"),
            text_of(entry, "description"),
            mapping_of(entry, "parameters"),
            maybe_text(entry, "namespace"),
        )
        for entry in mappings_of(mapping_of({"value": value}, "value"), "tools")
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
