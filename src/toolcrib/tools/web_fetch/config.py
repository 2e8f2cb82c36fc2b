"""The options of a web fetch, in words that no provider owns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import check_count, check_flag
from toolcrib.tools.web_search import DomainFilter

_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WebFetchConfig:
    """Which pages may be read, how many and how much of each. None leaves it to the provider."""

    kind: ClassVar[str] = "web_fetch"
    domain_filter: DomainFilter | None = None
    max_uses: int | None = None
    """How many fetches one request may make."""
    citations: bool = False
    """Whether the answer cites the pages."""
    max_content_tokens: int | None = None
    """How much of a page the model is shown, more or less."""

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
