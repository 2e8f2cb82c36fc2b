"""Web search: its options, its output and its factory."""

import dataclasses
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.tools.provider_tools import HostedToolConfig
from toolcrib.tools.result import ToolRenderableResult
from toolcrib.tools.web_search import (
    Citation,
    DomainFilter,
    GeoHint,
    WebSearchConfig,
    WebSearchResult,
    web_search_tool,
)


def test_every_option_has_a_default() -> None:
    """H14, H15, H16: no filter, no hint, live access."""
    assert DomainFilter() == DomainFilter(allowed=(), blocked=())
    assert GeoHint() == GeoHint(country_code=None, city=None, region=None, timezone=None)
    assert WebSearchConfig() == WebSearchConfig(
        domain_filter=None, geo_hint=None, allow_live_access=True
    )


@pytest.mark.parametrize("made", [DomainFilter(), GeoHint(), WebSearchConfig()])
def test_options_are_frozen_and_slotted(made: Any) -> None:
    """H2, H5: options cannot change after their check."""
    field = dataclasses.fields(made)[0].name

    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, field, "x")
    assert not hasattr(made, "__dict__")
    assert isinstance(made, HostedToolConfig)


@pytest.mark.parametrize(
    "domain",
    ["cdc.gov", "pubmed.ncbi.nlm.nih.gov", "a-b.example", "münchen.de", "xn--mnchen-3ya.de"],
)
def test_bare_domains_are_taken(domain: str) -> None:
    """H18: names as they are written, in any script."""
    assert DomainFilter(allowed=(domain,)).allowed == (domain,)


@pytest.mark.parametrize(
    "domain",
    [
        "https://cdc.gov",
        "cdc.gov/page",
        "cdc.gov:443",
        "cdc gov",
        " cdc.gov",
        "cdc..gov",
        ".gov",
        "gov",
        "com",
        "localhost",
        "1.2.3.4",
        "cdc.gov.",
        "",
        "*.gov",
        "-a.gov",
        "a_b.gov",
        "user@cdc.gov",
        "a" * 64 + ".gov",
        ".".join(["a" * 60] * 5),
        5,
    ],
)
@pytest.mark.parametrize("side", ["allowed", "blocked"])
def test_what_is_not_a_bare_domain_is_refused(side: str, domain: Any) -> None:
    """H18: no protocol, path, port, space, wildcard or empty label."""
    with pytest.raises(InvalidTool, match=rf"DomainFilter\.{side}.*is not a domain"):
        DomainFilter(**{side: (domain,)})


@pytest.mark.parametrize("domains", ["cdc.gov", ["cdc.gov"], None])
def test_domains_come_in_a_tuple(domains: Any) -> None:
    """H2: a list could change later, and a lone text would be read letter by letter."""
    with pytest.raises(InvalidTool, match="must be a tuple of domains"):
        DomainFilter(allowed=domains)


def test_allowed_and_blocked_may_be_given_together() -> None:
    """H17: whether both work at once is for the provider's codec to say."""
    both = DomainFilter(allowed=("cdc.gov",), blocked=("example.com",))

    assert (both.allowed, both.blocked) == (("cdc.gov",), ("example.com",))


@pytest.mark.parametrize("code", ["GB", "US", "DE", "AX", "SS"])
def test_real_country_codes_are_taken(code: str) -> None:
    """H19: codes of ISO 3166-1 alpha-2."""
    assert GeoHint(country_code=code).country_code == code


@pytest.mark.parametrize("code", ["UK", "XX", "EU", "gb", "GBR", "", "G", " GB", 44])
def test_other_country_codes_are_refused(code: Any) -> None:
    """H19: two letters are not enough; the real list decides."""
    with pytest.raises(InvalidTool, match=r"country_code.*ISO 3166-1"):
        GeoHint(country_code=code)


@pytest.mark.parametrize("zone", ["Europe/London", "America/Argentina/Buenos_Aires", "UTC"])
def test_real_time_zones_are_taken(zone: str) -> None:
    """H20: names of the IANA database."""
    assert GeoHint(timezone=zone).timezone == zone


@pytest.mark.parametrize(
    "zone", ["London", "europe/london", "GMT+25", "localtime", "Factory", "", "../x", 1]
)
def test_other_time_zones_are_refused(zone: Any) -> None:
    """H20, finding 19: what IANA does not know is refused, also when the machine has a file of
    that name; so is the zone of a clock that nobody has set.
    """
    with pytest.raises(InvalidTool, match=r"timezone.*IANA"):
        GeoHint(timezone=zone)


@pytest.mark.parametrize("field", ["city", "region"])
@pytest.mark.parametrize("text", ["", "  ", 5])
def test_a_city_or_region_must_be_named(field: str, text: Any) -> None:
    """H15: left out is None; an empty name is a mistake."""
    with pytest.raises(InvalidTool, match=rf"GeoHint\.{field}"):
        GeoHint(**{field: text})


@pytest.mark.parametrize(
    ("field", "value"),
    [("domain_filter", ("cdc.gov",)), ("geo_hint", "GB"), ("allow_live_access", "no")],
)
def test_parts_of_the_config_are_of_their_type(field: str, value: Any) -> None:
    """H2, H16: "no" is truthy, and would have meant yes."""
    with pytest.raises(InvalidTool, match=rf"WebSearchConfig\.{field}"):
        WebSearchConfig(**{field: value})


def test_a_result_has_text_citations_and_sources() -> None:
    """H21, H22: the text alone is enough; a citation may lack its place."""
    assert WebSearchResult("t") == WebSearchResult(text="t", citations=(), source_urls=())
    assert Citation("https://a.example", "A").span is None
    assert Citation("https://a.example", "A", (0, 5)).span == (0, 5)


def test_a_result_renders_its_text() -> None:
    """N16: what a reader sees of a search is its answer."""
    result = WebSearchResult("answer")

    assert isinstance(result, ToolRenderableResult)
    assert result.render() == "answer"


def test_the_factory_sets_kind_and_description() -> None:
    """H23: kind and description are fixed, the name is free."""
    tool = web_search_tool()

    assert (tool.kind, tool.name) == ("web_search", "web_search")
    assert tool.description == "Search the web for current information and cite sources."
    assert tool.config == WebSearchConfig()


def test_the_factory_takes_config_and_name() -> None:
    """H23: two searches with different options can stand side by side."""
    config = WebSearchConfig(allow_live_access=False)
    tool = web_search_tool(config, name="cached_search")

    assert (tool.name, tool.config) == ("cached_search", config)
