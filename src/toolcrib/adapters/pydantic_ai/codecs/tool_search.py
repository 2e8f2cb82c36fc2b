"""Tool search through pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from toolcrib.adapters.codec import Invocation, RawItem
from toolcrib.adapters.items import mappings_of, plain, text_of
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.tool_search import KIND, FoundTool, ToolSearchConfig, ToolSearchResult


class ToolSearchCodec(NativeCodec[ToolSearchConfig, ToolSearchResult]):
    """The codec of `tool_search`. pydantic-ai keeps only the names of the tools."""

    kind = KIND
    native = "tool_search"
    result_type: ClassVar[type[Any] | None] = ToolSearchResult

    def fields(self, config: ToolSearchConfig) -> dict[str, Any]:
        return {}

    def read(
        self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[ToolSearchConfig]
    ) -> Invocation:
        failure = call.failure
        result = ToolSearchResult(tuple(_found_tools(call)))
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=call.arguments,
            value=None if failure else result,
            message=failure or result.render(),
            success=failure is None,
            error=failure,
            raw=call.raw,
        )

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[ToolSearchConfig]
    ) -> ToolSearchResult | None:
        """The tools of all searches, in order."""
        items = [plain(item) for item in response_items]
        calls = self.hosted_calls(items, tool)
        if not calls:
            return None
        return ToolSearchResult(tuple(tool for call in calls for tool in _found_tools(call)))


def _found_tools(call: HostedCall) -> Iterator[FoundTool]:
    for match in mappings_of(call.facts, "discovered_tools"):
        if name := text_of(match, "name"):
            yield FoundTool(name, text_of(match, "description"))
