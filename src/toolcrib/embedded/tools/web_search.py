"""`web_search`: search in the configured web sources only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.tools.file_search import read_queries
from toolcrib.embedded.tools.tool import PageSource, ToolAnswer
from toolcrib.embedded.web.source import Domains, WebPage
from toolcrib.errors import WebUnavailable

if TYPE_CHECKING:
    from toolcrib.embedded.responses.request import ResponseRequest
    from toolcrib.embedded.responses.writer import ResponseWriter
    from toolcrib.embedded.tools.tool import OpenTool, RequestContext
    from toolcrib.embedded.web.source import WebSearchSource

TYPES: Final = frozenset(
    {
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
MAX_DOMAINS: Final = 100
_RESULTS: Final = {"low": 3, "medium": 5, "high": 10}
_PAGE_TEXT: Final = 20_000
_NOTHING_SAVED: Final = "Nothing was searched: without external access there are no pages here."
_SEARCH: Final = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to look for."}},
    "required": ["query"],
    "additionalProperties": False,
}
_OPEN: Final = {
    "type": "object",
    "properties": {"url": {"type": "string", "description": "The address of a page."}},
    "required": ["url"],
    "additionalProperties": False,
}


class WebSearchKind:
    """Opens web searches."""

    types = TYPES

    def __init__(self, sources: Sequence[WebSearchSource]) -> None:
        self._sources = sources

    def check(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault`. A search without external access needs no source, because some clients
        always send it: it finds nothing, and the model is told.
        """
        if not self._sources and config.get("external_web_access") is not False:
            raise invalid(
                "This provider has no web source: configure a folder of pages or a "
                "SearXNG endpoint.",
                f"{param}.type",
            )
        _domains(config, param)
        if str(config.get("search_context_size") or "medium") not in _RESULTS:
            raise invalid(
                "'search_context_size' must be low, medium or high.", f"{param}.search_context_size"
            )

    async def open(
        self, config: Mapping[str, Any], request: ResponseRequest, context: RequestContext
    ) -> OpenTool:
        """Open the search of one request."""
        may_go_out = config.get("external_web_access") is not False
        sources = [source for source in self._sources if may_go_out or not source.is_external]
        most = _RESULTS[config.get("search_context_size") or "medium"]
        shows = request.includes("web_search_call.action.sources")
        return _OpenWebSearch(sources, _domains(config, "tools"), most, shows_sources=shows)


class _OpenWebSearch:
    def __init__(
        self,
        sources: Sequence[WebSearchSource],
        domains: Domains,
        most: int,
        *,
        shows_sources: bool,
    ) -> None:
        self._sources = sources
        self._domains = domains
        self._most = most
        self._shows_sources = shows_sources

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """Two: to search, and to open a page."""
        return [
            BackendTool(
                "web_search",
                "Search the web. Cite pages by the marks of the sources.",
                _SEARCH,
                has_sources=True,
            ),
            BackendTool(
                "open_page", "Read a page that a search has found.", _OPEN, has_sources=True
            ),
        ]

    async def close(self) -> None:
        """Nothing to release."""

    async def run(
        self, name: str, arguments: Mapping[str, Any], writer: ResponseWriter
    ) -> ToolAnswer:
        """Search, or open a page."""
        item_id = new_id("ws")
        index = writer.add_item({"id": item_id, "type": "web_search_call", "status": "in_progress"})
        writer.emit("web_search_call.in_progress", index)
        writer.emit("web_search_call.searching", index)
        if name == "open_page":
            url = str(arguments.get("url", ""))
            action: dict[str, Any] = {"type": "open_page", "url": url}
            pages, faults = await self._open(url)
        else:
            queries = read_queries(arguments)
            pages, faults = await self._search(queries)
            action = {"type": "search", "query": queries[0] if queries else "", "queries": queries}
            if self._shows_sources:
                action["sources"] = [{"type": "url", "url": page.url} for page in pages]
        status = "failed" if faults and not pages else "completed"
        if status == "completed":
            writer.emit("web_search_call.completed", index)
        writer.finish_item(index, status=status, action=action)
        return _answer(item_id, pages, faults)

    async def _search(self, queries: Sequence[str]) -> tuple[list[WebPage], list[str]]:
        """Pages of all sources, interleaved, each once; and the failures of sources."""
        lists: list[Sequence[WebPage]] = []
        faults = [] if self._sources else [_NOTHING_SAVED]
        for query in queries:
            for source in self._sources:
                try:
                    lists.append(await source.search(query, self._most, self._domains))
                except WebUnavailable as error:
                    faults.append(str(error))
        pages_by_url: dict[str, WebPage] = {}
        for at in range(self._most):
            for pages in lists:
                if at < len(pages):
                    pages_by_url.setdefault(pages[at].url, pages[at])
        return list(pages_by_url.values())[: self._most], faults

    async def _open(self, url: str) -> tuple[list[WebPage], list[str]]:
        """The page, if a source has it and the domain filter allows it."""
        if not self._domains.admit(url):
            return [], ["The domain filter excludes this page."]
        faults: list[str] = []
        for source in self._sources:
            try:
                page = await source.open(url)
            except WebUnavailable as error:
                faults.append(str(error))
                continue
            if page is not None:
                return [WebPage(page.url, page.title, page.text[:_PAGE_TEXT])], []
        return [], faults


def _domains(config: Mapping[str, Any], param: str) -> Domains:
    filters = config.get("filters")
    facts = cast(dict[str, Any], filters) if isinstance(filters, dict) else {}
    lists: list[tuple[str, ...]] = []
    for key in ("allowed_domains", "blocked_domains"):
        value: object = facts.get(key) or []
        listed = cast(list[object], value) if isinstance(value, list) else [None]
        if len(listed) > MAX_DOMAINS or not all(isinstance(domain, str) for domain in listed):
            raise invalid(f"'{key}' must be at most {MAX_DOMAINS} domains.", f"{param}.{key}")
        lists.append(tuple(map(str, listed)))
    return Domains(*lists)


def _answer(item_id: str, pages: Sequence[WebPage], faults: Sequence[str]) -> ToolAnswer:
    texts = [f"{page.title} ({page.url})\n{page.text}" for page in pages]
    text = "\n\n".join([*texts, *faults]) or "Nothing was found."
    results = [{"url": page.url, "title": page.title, "text": page.text} for page in pages]
    sources = [PageSource(page.url, page.title) for page in pages]
    return ToolAnswer(item_id, text, {"results": results}, sources)
