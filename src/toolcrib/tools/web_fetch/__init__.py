"""Web fetch: the provider reads pages at addresses named in the prompt."""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.provider_tools import ConfigFunction, HostedFields, HostedTool, declared_config
from toolcrib.tools.web_fetch.types import (
    FetchedPage,
    WebFetchConfig,
    WebFetchRequest,
    WebFetchResult,
)
from toolcrib.tools.web_search import Citation, DomainFilter

__all__ = [
    "KIND",
    "Citation",
    "DomainFilter",
    "FetchedPage",
    "WebFetchConfig",
    "WebFetchRequest",
    "WebFetchResult",
    "web_fetch_tool",
]

KIND: Final = WebFetchConfig.kind

_ANYTHING: Final = WebFetchConfig()


def web_fetch_tool(
    config: WebFetchConfig | ConfigFunction[WebFetchConfig] = _ANYTHING,
    *,
    name: str = "web_fetch",
    fallback: AnyFallback[WebFetchConfig] = None,
    **fields: Unpack[HostedFields],
) -> HostedTool[WebFetchConfig, WebFetchResult]:
    """Return a web fetch with these options."""
    return HostedTool[WebFetchConfig, WebFetchResult](
        kind=KIND,
        name=name,
        description="Read web pages and documents at given addresses.",
        config=declared_config(config),
        fallback=fallback,
        **fields,
    )
