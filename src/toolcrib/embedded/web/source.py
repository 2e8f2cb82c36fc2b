"""The protocol of web sources, and the domain filter of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page, or the part of it that matches a query."""

    url: str
    title: str
    text: str


class WebSearchSource(Protocol):
    """A source of web pages. An external source uses the network."""

    @property
    def is_external(self) -> bool: ...

    async def search(self, query: str, most: int, domains: Domains) -> Sequence[WebPage]:
        """The best pages, best first. Raises `WebUnavailable`."""
        ...

    async def open(self, url: str) -> WebPage | None:
        """The page at this URL, if the source has it."""
        ...


@dataclass(frozen=True, slots=True)
class Domains:
    """Allowed and blocked domains, with their subdomains. Without `allowed`, all are allowed."""

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    def admit(self, url: str) -> bool:
        """Whether the filter allows the page at this URL."""
        host = host_of(url)
        if host is None:
            return False
        if any(_is_below(host, domain) for domain in self.blocked):
            return False
        return not self.allowed or any(_is_below(host, domain) for domain in self.allowed)


def host_of(url: str) -> str | None:
    """The host of a web URL; None for any other text."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    return host.lower().rstrip(".")


def _is_below(host: str, domain: str) -> bool:
    wanted = domain.lower().strip(".")
    return host == wanted or host.endswith(f".{wanted}")
