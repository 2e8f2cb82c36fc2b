"""Tool search through pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from toolcrib.adapters.codec import Invocation, RawItem, outcome_of
from toolcrib.adapters.items import mappings_of, text_of
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
        result = ToolSearchResult(
            () if failure else tuple(_found_tools(call)), call.status, failure
        )
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=call.arguments,
            value=result,
            message=failure or result.render(),
            success=failure is None,
            error=failure,
            raw=call.raw,
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


def _found_tools(call: HostedCall) -> Iterator[FoundTool]:
    for match in mappings_of(call.facts, "discovered_tools"):
        if name := text_of(match, "name"):
            yield FoundTool(name, text_of(match, "description"))
