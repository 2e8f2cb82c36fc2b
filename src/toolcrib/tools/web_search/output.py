"""What a web search gives back, whoever ran it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSearchAction:
    """What one call of a search did, as far as the provider says: it searched for `queries`,
    opened `url`, or looked for `pattern` in it.
    """

    action: str = "search"
    queries: tuple[str, ...] = ()
    url: str | None = None
    pattern: str | None = None

    @property
    def query(self) -> str:
        """The first of the queries; empty when nothing was searched for."""
        return self.queries[0] if self.queries else ""

    def render(self) -> str:
        """The action in one line."""
        objects = [*self.queries, *filter(None, (self.pattern, self.url))]
        return f"{self.action}: {'; '.join(objects)}" if objects else self.action


@dataclass(frozen=True, slots=True)
class Citation:
    """A source for part of the answer's text; `span` is start and end (exclusive) in characters of
    it. None when what cites the source is not part of the answer.
    """

    url: str
    title: str
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class WebSearchResult:
    """The answer, the sources that it cites, and every address that was looked at."""

    text: str
    citations: tuple[Citation, ...] = ()
    source_urls: tuple[str, ...] = ()

    def render(self) -> str:
        """The answer as text."""
        return self.text
