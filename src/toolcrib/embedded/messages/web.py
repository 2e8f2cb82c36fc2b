"""`web_search` and `web_fetch` of the Messages API, in the configured web sources only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.messages.citation import packed
from toolcrib.embedded.messages.server_tool import (
    positive,
    server_error,
    server_result,
    server_use,
)
from toolcrib.embedded.web.source import Domains, host_of
from toolcrib.errors import WebUnavailable

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.embedded.messages.request import Block
    from toolcrib.embedded.web.source import WebPage, WebSearchSource

MAX_RESULTS: Final = 10
MAX_QUERY: Final = 1000
MAX_URL: Final = 250
MAX_DOMAINS: Final = 100
_PAGE_CHARACTERS: Final = 400_000
_CHARACTERS_PER_TOKEN: Final = 4
_SEARCH: Final = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to look for."}},
    "required": ["query"],
    "additionalProperties": False,
}
_FETCH: Final = {
    "type": "object",
    "properties": {"url": {"type": "string", "description": "The address of a page."}},
    "required": ["url"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class PageFilter:
    """The allowed and blocked domains of a tool, with their subdomains. An entry may go on with a
    path: then it means the pages below that path, in which `*` stands for any text.
    """

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    @property
    def domains(self) -> Domains:
        """The part of the filter that a web source applies itself."""
        hosts = tuple(entry.partition("/")[0] for entry in self.allowed)
        return Domains(hosts, tuple(entry for entry in self.blocked if "/" not in entry))

    def admits(self, url: str) -> bool:
        """Whether the filter allows a page."""
        if host_of(url) is None or any(_covers(entry, url) for entry in self.blocked):
            return False
        return not self.allowed or any(_covers(entry, url) for entry in self.allowed)


def read_filter(config: Mapping[str, Any], at: str) -> PageFilter:
    """Read the domains of a tool. Raises `ApiFault`."""
    allowed, blocked = (_entries(config, key, at) for key in ("allowed_domains", "blocked_domains"))
    if allowed and blocked:
        raise invalid(f"{at}: give allowed_domains or blocked_domains, not both.")
    return PageFilter(allowed, blocked)


class WebSearchTool:
    """`web_search`, open for one request."""

    name = "web_search"

    def __init__(
        self, sources: Sequence[WebSearchSource], config: Mapping[str, Any], at: str
    ) -> None:
        _check_sources(sources, at)
        self._sources = sources
        self._filter = read_filter(config, at)
        self._left = positive(config, "max_uses", at)

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """One: `web_search`."""
        about = "Search the web. Cite pages by the marks of the sources."
        return [BackendTool(self.name, about, _SEARCH, has_sources=True)]

    def use(self, name: str) -> Block:
        """The block of a search."""
        return server_use(self.name)

    async def close(self) -> None:
        """Nothing to release."""

    async def run(self, name: str, arguments: Mapping[str, Any]) -> Block:
        """Search in all sources."""
        if self._left is not None:
            if self._left < 1:
                return server_error(self.name, "max_uses_exceeded")
            self._left -= 1
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return server_error(self.name, "invalid_tool_input")
        if len(query) > MAX_QUERY:
            return server_error(self.name, "query_too_long")
        pages, has_failed = await self._pages(query)
        if has_failed and not pages:
            return server_error(self.name, "unavailable")
        return server_result(self.name, [_found(page) for page in pages])

    async def _pages(self, query: str) -> tuple[list[WebPage], bool]:
        """Pages of all sources, interleaved, each once; and whether a source has failed."""
        lists: list[Sequence[WebPage]] = []
        has_failed = False
        for source in self._sources:
            try:
                found = await source.search(query, MAX_RESULTS, self._filter.domains)
            except WebUnavailable:
                has_failed = True
                continue
            lists.append([page for page in found if self._filter.admits(page.url)])
        by_url: dict[str, WebPage] = {}
        for at in range(MAX_RESULTS):
            for pages in lists:
                if at < len(pages):
                    by_url.setdefault(pages[at].url, pages[at])
        return list(by_url.values())[:MAX_RESULTS], has_failed


class WebFetchTool:
    """`web_fetch`, open for one request. It reads only addresses that occur in `context`: a model
    cannot send what it knows to an address of its own making.
    """

    name = "web_fetch"

    def __init__(
        self,
        sources: Sequence[WebSearchSource],
        config: Mapping[str, Any],
        at: str,
        *,
        context: Sequence[str],
        clock: Clock,
    ) -> None:
        _check_sources(sources, at)
        self._sources = sources
        self._filter = read_filter(config, at)
        self._left = positive(config, "max_uses", at)
        self._most = positive(config, "max_content_tokens", at)
        citations: object = config.get("citations") or {}
        facts = cast(dict[str, Any], citations) if isinstance(citations, dict) else {}
        self._is_cited = facts.get("enabled") is True
        self._context = context
        self._clock = clock

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """One: `web_fetch`."""
        about = "Read a page that was found or named in the conversation."
        return [BackendTool(self.name, about, _FETCH, has_sources=self._is_cited)]

    def use(self, name: str) -> Block:
        """The block of a fetch."""
        return server_use(self.name)

    async def close(self) -> None:
        """Nothing to release."""

    async def run(self, name: str, arguments: Mapping[str, Any]) -> Block:
        """Read a page."""
        if self._left is not None:
            if self._left < 1:
                return server_error(self.name, "max_uses_exceeded")
            self._left -= 1
        url = arguments.get("url")
        if (fault := self._fault(url)) is not None:
            return server_error(self.name, fault)
        page = await self._page(str(url))
        if page is None:
            return server_error(self.name, "url_not_accessible")
        most = _PAGE_CHARACTERS if self._most is None else self._most * _CHARACTERS_PER_TOKEN
        source = {"type": "text", "media_type": "text/plain", "data": page.text[:most]}
        document: Block = {"type": "document", "source": source, "title": page.title}
        document["citations"] = {"enabled": True} if self._is_cited else None
        now = datetime.fromtimestamp(self._clock(), UTC).isoformat()
        content = {"type": "web_fetch_result", "url": page.url, "retrieved_at": now}
        return server_result(self.name, {**content, "content": document})

    def _fault(self, url: object) -> str | None:
        if not isinstance(url, str) or host_of(url) is None:
            return "invalid_tool_input"
        if len(url) > MAX_URL:
            return "url_too_long"
        if not self._filter.admits(url):
            return "url_not_allowed"
        is_known = any(url.partition("#")[0] in text for text in self._context)
        return None if is_known else "url_not_in_prior_context"

    async def _page(self, url: str) -> WebPage | None:
        for source in self._sources:
            try:
                page = await source.open(url)
            except WebUnavailable:
                continue
            # A source may follow a redirect.
            if page is not None and self._filter.admits(page.url):
                return page
        return None


def _check_sources(sources: Sequence[WebSearchSource], at: str) -> None:
    if not sources:
        raise invalid(
            f"{at}: this provider has no web source: configure a folder of pages or a SearXNG "
            "endpoint."
        )


def _entries(config: Mapping[str, Any], key: str, at: str) -> tuple[str, ...]:
    value: object = config.get(key) or []
    listed = cast(list[object], value) if isinstance(value, list) else [None]
    if len(listed) > MAX_DOMAINS:
        raise invalid(f"{at}.{key}: at most {MAX_DOMAINS} domains can be given.")
    for entry in listed:
        if not isinstance(entry, str) or not _is_domain(entry):
            raise invalid(f"{at}.{key}: write domains without a scheme, such as example.com/docs.")
    return tuple(map(str, listed))


def _is_domain(entry: str) -> bool:
    host = entry.partition("/")[0]
    return bool(host.strip(".")) and "://" not in entry and not set(host) & set("*?@: ")


def _covers(entry: str, url: str) -> bool:
    host, slash, path = entry.partition("/")
    if not Domains((host,)).admit(url):
        return False
    if not slash or not path:
        return True
    shown = urlsplit(url).path or "/"
    pattern = "/" + path.rstrip("/").replace("[", "[[]").replace("?", "[?]")
    return fnmatchcase(shown, pattern) or fnmatchcase(shown, pattern + "/*")


def _found(page: WebPage) -> Block:
    return {
        "type": "web_search_result",
        "url": page.url,
        "title": page.title,
        "page_age": None,
        "encrypted_content": packed({"text": page.text}),
    }
