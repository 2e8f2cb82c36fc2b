"""Web search: the provider searches the web and cites its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

from toolcrib._lazy import lazy_exports
from toolcrib.tools.citations import Citation
from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.provider_tools import ConfigFunction, HostedFields, HostedTool, declared_config
from toolcrib.tools.web_search.types import (
    DomainFilter,
    GeoHint,
    WebSearchAction,
    WebSearchConfig,
    WebSearchResult,
)

if TYPE_CHECKING:
    from toolcrib.prompt.web_search_section import WebSearchSection

__all__ = [
    "KIND",
    "Citation",
    "DomainFilter",
    "GeoHint",
    "WebSearchAction",
    "WebSearchConfig",
    "WebSearchResult",
    "WebSearchSection",
    "web_search_tool",
]

KIND: Final = WebSearchConfig.kind

_ANYWHERE: Final = WebSearchConfig()


def web_search_tool(
    config: WebSearchConfig | ConfigFunction[WebSearchConfig] = _ANYWHERE,
    *,
    name: str = "web_search",
    fallback: AnyFallback[WebSearchConfig] = None,
    **fields: Unpack[HostedFields],
) -> HostedTool[WebSearchConfig, WebSearchResult]:
    """Return a web search with these options."""
    return HostedTool[WebSearchConfig, WebSearchResult](
        kind=KIND,
        name=name,
        description="Search the web for current information and cite sources.",
        config=declared_config(config),
        fallback=fallback,
        **fields,
    )


if not TYPE_CHECKING:
    # Prompts are built from tools, so the package of a tool loads its section on first use only.
    __getattr__, __dir__ = lazy_exports(
        __name__, {"toolcrib.prompt.web_search_section": ("WebSearchSection",)}
    )
