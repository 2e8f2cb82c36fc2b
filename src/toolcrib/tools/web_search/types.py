"""Options and results of a web search, in words that no provider owns."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar, Literal, TypeAlias, get_args

from toolcrib.errors import InvalidTool
from toolcrib.tools.citations import Citation
from toolcrib.tools.options import check_choice, check_count, check_domains
from toolcrib.tools.result import NamedFields

SearchContextSize: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class DomainFilter:
    """The domains to search. Whether both lists may be combined depends on the provider."""

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_domains("DomainFilter.allowed", self.allowed)
        check_domains("DomainFilter.blocked", self.blocked)


@dataclass(frozen=True, slots=True)
class GeoHint:
    """Roughly where the user is: an ISO 3166-1 alpha-2 country, a city, an IANA time zone."""

    country_code: str | None = None
    city: str | None = None
    region: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        _check_text("city", self.city)
        _check_text("region", self.region)
        if self.country_code is not None:
            _check_country(self.country_code)
        if self.timezone is not None:
            _check_timezone(self.timezone)


@dataclass(frozen=True, slots=True)
class WebSearchConfig:
    """The options of a web search. Without live access, only the provider's index is searched."""

    kind: ClassVar[str] = "web_search"
    domain_filter: DomainFilter | None = None
    geo_hint: GeoHint | None = None
    allow_live_access: bool = True
    search_context_size: SearchContextSize | None = None
    """How much of what it finds the model reads; `None` takes the provider's default."""
    max_uses: int | None = None
    """How many searches one request may make."""

    def __post_init__(self) -> None:
        _check_type("domain_filter", self.domain_filter, DomainFilter | None)
        _check_type("geo_hint", self.geo_hint, GeoHint | None)
        _check_type("allow_live_access", self.allow_live_access, bool)
        sizes = get_args(SearchContextSize)
        check_choice("WebSearchConfig.search_context_size", self.search_context_size, sizes)
        check_count("WebSearchConfig.max_uses", self.max_uses, 1, 2**31 - 1)


def _check_country(code: object) -> None:
    if code not in country_codes():
        raise InvalidTool(
            f"GeoHint.country_code: {code!r} is not an ISO 3166-1 alpha-2 code; "
            "write two capital letters, like 'GB'"
        )


def _check_timezone(zone: object) -> None:
    if zone not in time_zones():
        raise InvalidTool(
            f"GeoHint.timezone: {zone!r} is not an IANA time zone; write one like 'Europe/London'"
        )


def _check_text(field: str, text: object) -> None:
    if text is not None and (not isinstance(text, str) or not text.strip()):
        raise InvalidTool(f"GeoHint.{field} must be None or a name, not {text!r}")


def _check_type(field: str, value: object, expected: object) -> None:
    if not isinstance(value, expected):  # pyright: ignore[reportArgumentType]
        name = getattr(expected, "__name__", str(expected))
        raise InvalidTool(f"WebSearchConfig.{field} must be {name}, not {value!r}")


@dataclass(frozen=True, slots=True)
class WebSearchAction:
    """One action of a search, as far as the provider reports it: search for `queries`, open `url`,
    or find `pattern` in it.
    """

    action: str = "search"
    queries: tuple[str, ...] = ()
    url: str | None = None
    pattern: str | None = None

    @property
    def query(self) -> str:
        """The first query; empty when there is none."""
        return self.queries[0] if self.queries else ""

    def render(self) -> str:
        """Return the action in one line."""
        objects = [*self.queries, *filter(None, (self.pattern, self.url))]
        return f"{self.action}: {'; '.join(objects)}" if objects else self.action


@dataclass(frozen=True, slots=True)
class WebSearchResult(NamedFields):
    """The answer, the sources that it cites, and all addresses that were visited.

    The answer and its citations belong to all searches of a turn together: the result of one
    search has only its addresses.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    source_urls: tuple[str, ...] = ()
    status: str = "completed"
    """`completed`, or the provider's word for how the search ended; of several searches,
    `completed` when one was."""
    error: str | None = None
    """Why a search failed; of several searches, the first that did."""

    def render(self) -> str:
        """Return the answer."""
        return self.text


@functools.cache
def country_codes() -> frozenset[str]:
    """Every ISO 3166-1 alpha-2 code."""
    table = files("tzdata").joinpath("zoneinfo", "iso3166.tab").read_text("utf-8")
    rows = (line for line in table.splitlines() if line and not line.startswith("#"))
    return frozenset(row.split("\t", 1)[0] for row in rows)


@functools.cache
def time_zones() -> frozenset[str]:
    """Every IANA time zone of a place, independent of the operating system."""
    # `Factory` stands for a clock that nobody has set.
    zones = files("tzdata").joinpath("zones").read_text("utf-8").split()
    return frozenset(zones) - {"Factory"}
