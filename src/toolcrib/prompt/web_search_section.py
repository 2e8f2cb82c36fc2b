"""A section that offers a web search and says when to use it."""

from __future__ import annotations

from typing import Final

from toolcrib.prompt.section import MarkdownSection
from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.provider_tools import ConfigFunction, HostedTool
from toolcrib.tools.web_search import WebSearchConfig, web_search_tool

_TEMPLATE: Final = """\
You can search the web. Search when the answer depends on recent events, prices, releases or other
facts that may have changed, or when you are not sure. Prefer primary sources, compare more than one
where they may disagree, and cite every source that the answer relies on. If the search finds
nothing useful, say so."""

_ANYWHERE: Final = WebSearchConfig()


class WebSearchSection(MarkdownSection[None]):
    """Declares a web search and says when to use it. Without the tool there is no section."""

    def __init__(
        self,
        config: WebSearchConfig | ConfigFunction[WebSearchConfig] = _ANYWHERE,
        *,
        key: str = "web_search",
        fallback: AnyFallback[WebSearchConfig] = None,
    ) -> None:
        self._tool = web_search_tool(config, fallback=fallback)
        super().__init__(title="Web Search", key=key, template=_TEMPLATE, only_with_tools=True)

    def hosted_tools(self) -> tuple[HostedTool[WebSearchConfig], ...]:
        return (self._tool,)
