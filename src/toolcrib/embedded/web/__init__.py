"""Web sources of the hosted web search: saved pages in a folder, or a SearXNG server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.web.folder import WebFolder
    from toolcrib.embedded.web.searxng import Searxng
    from toolcrib.embedded.web.source import Domains, WebPage, WebSearchSource
    from toolcrib.errors import WebUnavailable

__all__ = [
    "Domains",
    "Searxng",
    "WebFolder",
    "WebPage",
    "WebSearchSource",
    "WebUnavailable",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.web.folder": ("WebFolder",),
            "toolcrib.embedded.web.searxng": ("Searxng",),
            "toolcrib.errors": ("WebUnavailable",),
            "toolcrib.embedded.web.source": (
                "Domains",
                "WebPage",
                "WebSearchSource",
            ),
        },
    )
