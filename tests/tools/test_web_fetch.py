"""Web fetch: its options, its output and its factory."""

import dataclasses
from typing import Any

import pytest

from toolcrib.adapters.openai.adapter import default_codecs
from toolcrib.errors import InvalidTool
from toolcrib.tools.result import ToolRenderableResult
from toolcrib.tools.web_fetch import (
    DomainFilter,
    FetchedPage,
    WebFetchConfig,
    WebFetchRequest,
    WebFetchResult,
    web_fetch_tool,
)


def test_every_option_has_a_default() -> None:
    """H2: nothing is limited unless somebody says so."""
    assert WebFetchConfig() == WebFetchConfig(
        domain_filter=None, max_uses=None, citations=False, max_content_tokens=None
    )


@pytest.mark.parametrize(
    "made", [WebFetchConfig(), WebFetchResult(), FetchedPage("u"), WebFetchRequest()]
)
def test_options_and_results_are_frozen_and_slotted(made: Any) -> None:
    """H2, H5: what was checked cannot change."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(made)[0].name, "x")
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("domain_filter", ("a.org",)),
        ("max_uses", 0),
        ("max_uses", True),
        ("max_uses", 2**31),
        ("citations", None),
        ("citations", "yes"),
        ("max_content_tokens", 0),
        ("max_content_tokens", "all"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(option: str, value: Any) -> None:
    """H2: a wrong option is named when the tool is declared, not when it is used."""
    with pytest.raises(InvalidTool, match=rf"WebFetchConfig\.{option}"):
        WebFetchConfig(**{option: value})


def test_options_are_kept() -> None:
    """H2: what makes sense is taken as it is."""
    domains = DomainFilter(allowed=("example.org",))
    config = WebFetchConfig(domains, max_uses=3, citations=True, max_content_tokens=5000)

    tool = web_fetch_tool(config, name="reader")

    assert (tool.kind, tool.name, tool.config) == ("web_fetch", "reader", config)
    assert tool.place == "provider"


def test_the_default_name_is_the_kind() -> None:
    """A tool without options needs no name either."""
    assert (web_fetch_tool().name, web_fetch_tool().config) == ("web_fetch", WebFetchConfig())


def test_a_result_renders_the_answer_else_its_pages() -> None:
    """N16: whoever reads a result as text sees what the model made of it, else what there was."""
    page = FetchedPage("https://a.org", "A", "alpha")
    missing = FetchedPage("https://b.org", status="error", error="url_not_accessible")

    assert WebFetchResult((page,), text="It is alpha.").render() == "It is alpha."
    assert WebFetchResult((page, missing)).render() == (
        "https://a.org\nA\nalpha\n\nhttps://b.org\nurl_not_accessible"
    )
    assert isinstance(WebFetchResult(), ToolRenderableResult)


def test_openai_has_no_codec_for_it() -> None:
    """H42: the kind stays unknown where the provider has no such tool."""
    assert "web_fetch" not in default_codecs()
