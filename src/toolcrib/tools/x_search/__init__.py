"""X search: the provider searches posts on X and cites them."""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.provider_tools import (
    ConfigFunction,
    HostedFields,
    HostedTool,
    declared_config,
)
from toolcrib.tools.web_search import WebSearchResult
from toolcrib.tools.x_search.types import XSearchConfig

__all__ = ["KIND", "XSearchConfig", "x_search_tool"]

KIND: Final = XSearchConfig.kind

_EVERYBODY: Final = XSearchConfig()


def x_search_tool(
    config: XSearchConfig | ConfigFunction[XSearchConfig] = _EVERYBODY,
    *,
    name: str = "x_search",
    fallback: AnyFallback[XSearchConfig] = None,
    **fields: Unpack[HostedFields],
) -> HostedTool[XSearchConfig, WebSearchResult]:
    """Return a search of X with these options."""
    return HostedTool[XSearchConfig, WebSearchResult](
        kind=KIND,
        name=name,
        description="Search posts on X and cite them.",
        config=declared_config(config),
        fallback=fallback,
        **fields,
    )
