"""Options, params and results of a web fetch, in words that no provider owns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import check_count, check_flag
from toolcrib.tools.result import NamedFields
from toolcrib.tools.web_search import Citation, DomainFilter

_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WebFetchConfig:
    """The pages that may be read, how many, and how much of each. `None` takes the provider's
    default.
    """

    kind: ClassVar[str] = "web_fetch"
    domain_filter: DomainFilter | None = None
    max_uses: int | None = None
    """How many fetches one request may make."""
    citations: bool = False
    """Whether the answer cites the pages."""
    max_content_tokens: int | None = None
    """Approximately how much of a page the model sees."""

    def __post_init__(self) -> None:
        if not isinstance(self.domain_filter, DomainFilter | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                "WebFetchConfig.domain_filter must be a DomainFilter or None, "
                f"not {self.domain_filter!r}"
            )
        check_count("WebFetchConfig.max_uses", self.max_uses, 1, _MOST)
        if self.citations is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise InvalidTool("WebFetchConfig.citations must be True or False, not None")
        check_flag("WebFetchConfig.citations", self.citations)
        check_count("WebFetchConfig.max_content_tokens", self.max_content_tokens, 1, _MOST)


@dataclass(frozen=True, slots=True)
class WebFetchRequest:
    """The addresses of one call."""

    urls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page, or why it could not be read. Some providers do not report the text of a page."""

    url: str
    title: str = ""
    text: str = ""
    """Empty for content that is not text, such as a PDF."""
    media_type: str | None = None
    retrieved_at: str | None = None
    """When the page was read, in the provider's format; it may come from a cache."""
    status: str = "success"
    """`success`, or the provider's word for the error: `paywall`, `url_not_allowed`."""
    error: str | None = None

    def render(self) -> str:
        """Return the page under its address, or the error."""
        return "\n".join(filter(None, (self.url, self.title, self.error or self.text)))


@dataclass(frozen=True, slots=True)
class WebFetchResult(NamedFields):
    """The pages in the order they were read, and the answer with its citations."""

    pages: tuple[FetchedPage, ...] = ()
    text: str = ""
    citations: tuple[Citation, ...] = ()
    status: str = "completed"
    """`completed`, or how the fetch ended; of several fetches, `completed` when one was."""
    error: str | None = None
    """Why a fetch failed; of several fetches, the first that did."""

    def render(self) -> str:
        """Return the answer, or the pages while there is none."""
        return self.text or "\n\n".join(page.render() for page in self.pages)
