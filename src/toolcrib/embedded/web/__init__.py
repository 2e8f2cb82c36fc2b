"""Web sources of the hosted web search: a folder of saved pages, or a SearXNG instance.

Names load their module when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.embedded.web.folder import WebFolder
    from toolcrib.embedded.web.searxng import Searxng
    from toolcrib.embedded.web.source import Domains, WebPage, WebSource, WebUnavailable

__all__ = [
    "Domains",
    "Searxng",
    "WebFolder",
    "WebPage",
    "WebSource",
    "WebUnavailable",
]

_HOMES = {
    "Domains": "source",
    "Searxng": "searxng",
    "WebFolder": "folder",
    "WebPage": "source",
    "WebSource": "source",
    "WebUnavailable": "source",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
