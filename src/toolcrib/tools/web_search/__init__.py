"""Web search: the provider searches the web and cites what it found."""

from __future__ import annotations

from typing import Final

from toolcrib.tools.hosted import HostedTool
from toolcrib.tools.web_search.config import DomainFilter, GeoHint, WebSearchConfig
from toolcrib.tools.web_search.output import Citation, WebSearchResult

__all__ = [
    "KIND",
    "Citation",
    "DomainFilter",
    "GeoHint",
    "WebSearchConfig",
    "WebSearchResult",
    "web_search_tool",
]

KIND: Final = "web_search"

_ANYWHERE: Final = WebSearchConfig()


def web_search_tool(
    config: WebSearchConfig = _ANYWHERE, *, name: str = "web_search"
) -> HostedTool[WebSearchConfig]:
    """A web search with these options."""
    return HostedTool[WebSearchConfig](
        kind=KIND,
        name=name,
        description="Search the web for current information and cite sources.",
        config=config,
    )
