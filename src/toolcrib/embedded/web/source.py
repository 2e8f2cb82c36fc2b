"""Where web search looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that was found or opened, or the part of it that fits."""

    url: str
    title: str
    text: str


class WebSearchSource(Protocol):
    """Somewhere to search. An external one asks the network."""

    @property
    def is_external(self) -> bool: ...

    async def search(self, query: str, most: int, domains: Domains) -> Sequence[WebPage]:
        """Pages that fit, the best first. Raises `WebUnavailable`."""
        ...

    async def open(self, url: str) -> WebPage | None:
        """A page by its address, if this source has it."""
        ...


@dataclass(frozen=True, slots=True)
class Domains:
    """Which domains are wanted, with those below them. Without `allowed` all are."""

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    def admit(self, url: str) -> bool:
        """Whether a page may be shown."""
        host = host_of(url)
        if host is None:
            return False
        if any(_is_below(host, each) for each in self.blocked):
            return False
        return not self.allowed or any(_is_below(host, each) for each in self.allowed)


def host_of(url: str) -> str | None:
    """The host of a web address; None when it is not one."""
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
