"""What a web fetch gives back, whoever ran it."""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib.tools.web_search import Citation


@dataclass(frozen=True, slots=True)
class WebFetchRequest:
    """The addresses that one call was asked to read."""

    urls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page, or why there is none. Some providers keep the page's text to themselves."""

    url: str
    title: str = ""
    text: str = ""
    """Empty for what is no text, such as a PDF."""
    media_type: str | None = None
    retrieved_at: str | None = None
    """When the page was read, as the provider writes times; it may come from a cache."""
    status: str = "success"
    """`success`, or in the provider's word what went wrong: `paywall`, `url_not_allowed`."""
    error: str | None = None

    def render(self) -> str:
        """The page under its address, or what went wrong with it."""
        return "\n".join(filter(None, (self.url, self.title, self.error or self.text)))


@dataclass(frozen=True, slots=True)
class WebFetchResult:
    """The pages in the order in which they were read, and the answer with what it cites."""

    pages: tuple[FetchedPage, ...] = ()
    text: str = ""
    citations: tuple[Citation, ...] = ()

    def render(self) -> str:
        """The answer, or the pages as long as there is none."""
        return self.text or "\n\n".join(page.render() for page in self.pages)
