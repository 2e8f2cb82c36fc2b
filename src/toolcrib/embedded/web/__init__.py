"""The web as far as the user configures it: folders of pages, and search engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.web.folder import WebFolder
    from toolcrib.embedded.web.searxng import Searxng
    from toolcrib.embedded.web.source import Page, WebSource, WebUnavailable

__all__ = [
    "Page",
    "Searxng",
    "WebFolder",
    "WebSource",
    "WebUnavailable",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.web.folder": ("WebFolder",),
            "toolcrib.embedded.web.searxng": ("Searxng",),
            "toolcrib.embedded.web.source": ("Page", "WebSource", "WebUnavailable"),
        },
    )
