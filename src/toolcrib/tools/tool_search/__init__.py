"""Tool search: the model searches for tools instead of reading the declarations of all of them.

`tool_search_tool` lets the provider search; `handler_tool_search_tool` asks a handler here.
"""

from __future__ import annotations

from typing import Final, TypeVar, Unpack

from toolcrib.tools.provider_tools import HostedFields, HostedTool, ProviderTool
from toolcrib.tools.rules import ToolRules
from toolcrib.tools.tool import Handler
from toolcrib.tools.tool_search.types import (
    FoundTool,
    HandlerToolSearchConfig,
    ToolQuery,
    ToolSearchConfig,
    ToolSearchResult,
)

__all__ = [
    "KIND",
    "FoundTool",
    "HandlerToolSearchConfig",
    "ToolQuery",
    "ToolSearchConfig",
    "ToolSearchResult",
    "handler_tool_search_tool",
    "tool_search_tool",
]

P = TypeVar("P")

KIND: Final = ToolSearchConfig.kind
DESCRIPTION: Final = "Search for tools that are not shown yet, by words in their descriptions."


def tool_search_tool(
    *, name: str = "tool_search", **fields: Unpack[HostedFields]
) -> HostedTool[ToolSearchConfig, ToolSearchResult]:
    """Return a search that the provider performs."""
    return HostedTool[ToolSearchConfig, ToolSearchResult](
        kind=KIND, name=name, description=DESCRIPTION, config=ToolSearchConfig(), **fields
    )


def handler_tool_search_tool(
    handler: Handler[P, ToolSearchResult],
    params_type: type[P] = ToolQuery,
    *,
    name: str = "tool_search",
    description: str = DESCRIPTION,
    provider: str = "openai",
    **rules: Unpack[ToolRules],
) -> ProviderTool[P, ToolSearchResult, HandlerToolSearchConfig]:
    """Return a search that `handler` performs. The model reads `description` and the fields of
    `params_type`.
    """
    return ProviderTool[P, ToolSearchResult, HandlerToolSearchConfig](
        name=name,
        description=description,
        provider=provider,
        config=HandlerToolSearchConfig(),
        handler=handler,
        params_type=params_type,
        result_type=ToolSearchResult,
        **rules,
    )
