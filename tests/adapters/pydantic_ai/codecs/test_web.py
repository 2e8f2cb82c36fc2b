"""Web search and web fetch, in the shapes of every provider."""

from typing import Any

import pytest

from tests.adapters.pydantic_ai.codecs.adapter_items import Item, answer, call, message
from toolcrib.adapters.pydantic_ai.codecs.web_fetch import WebFetchCodec
from toolcrib.adapters.pydantic_ai.codecs.web_search import WebSearchCodec
from toolcrib.tools.web_fetch import FetchedPage, WebFetchConfig, WebFetchResult, web_fetch_tool
from toolcrib.tools.web_search import (
    Citation,
    DomainFilter,
    GeoHint,
    WebSearchAction,
    WebSearchConfig,
    WebSearchResult,
    web_search_tool,
)

SEARCH, FETCH = web_search_tool(), web_fetch_tool()
CODEC = WebSearchCodec("anthropic")
FETCHER = WebFetchCodec("anthropic")


def searched(arguments: Any, content: Any, **details: Any) -> tuple[Any, ...]:
    items = [call("web_search", arguments), answer("web_search", content, **details)]
    found = CODEC.invocation(items[0], items, SEARCH)
    return found.params, found.value, found.success, found.error


@pytest.mark.parametrize(
    "content",
    [
        [{"url": "https://a.org", "title": "A", "type": "web_search_result"}],
        [{"uri": "https://a.org", "title": "a.org", "domain": None}],
        {"search_suggestions": "<b>", "sources": [{"uri": "https://a.org"}, {"title": "x"}]},
        {"status": "completed", "sources": [{"type": "url", "url": "https://a.org"}]},
        {"images": None, "results": [{"url": "https://a.org", "content": "text"}]},
    ],
)
def test_sources_are_found_in_every_shape(content: Any) -> None:
    """H39: Anthropic, Gemini 2 and 3, OpenAI and Groq each list addresses in their own way."""
    _, value, success, error = searched({"query": "a"}, content)

    assert (success, error) == (True, None)
    assert value == WebSearchResult("", source_urls=("https://a.org",))


@pytest.mark.parametrize(
    ("arguments", "params"),
    [
        ({"query": "tides"}, WebSearchAction("search", ("tides",))),
        ({"queries": ["tides", ""]}, WebSearchAction("search", ("tides",))),
        (
            {"type": "search", "query": "a", "queries": ["a", "b"]},
            WebSearchAction("search", ("a", "b")),
        ),
        (
            {"type": "open_page", "url": "https://a.org"},
            WebSearchAction("open_page", (), "https://a.org"),
        ),
        ({"url": "https://a.org"}, WebSearchAction("open_page", (), "https://a.org")),
        (
            {"type": "find_in_page", "url": "https://a.org", "pattern": "x"},
            WebSearchAction("find_in_page", (), "https://a.org", "x"),
        ),
        ('{"query": "tides"}', WebSearchAction("search", ("tides",))),
        (None, WebSearchAction()),
    ],
)
def test_what_was_asked_is_told(arguments: Any, params: WebSearchAction) -> None:
    """N21: the queries, the page or the pattern, as far as the provider says."""
    assert searched(arguments, [])[0] == params


@pytest.mark.parametrize(
    ("content", "details", "error"),
    [
        (
            {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
            {},
            "web_search failed: max_uses_exceeded",
        ),
        ({"status": "failed"}, {}, "web_search failed: failed"),
        (None, {"status": "failed", "error": "quota"}, "web_search failed: failed: quota"),
        ({"type": "some_new_error"}, {}, "web_search failed: some_new_error"),
    ],
)
def test_failures_inside_a_success_are_failures(content: Any, details: Item, error: str) -> None:
    """N17, H44: the provider's code is told, also in the value."""
    _, value, *outcome = searched({"query": "a"}, content, **details)

    assert outcome == [False, error]
    assert (value.source_urls, value.status, value.error) == ((), "failed", error)


def test_a_denied_or_missing_answer_is_a_failure() -> None:
    """N17: nothing is a success only because nobody said otherwise."""
    asked = call("web_search", {"query": "a"})
    denied = answer("web_search", None) | {"outcome": "denied"}

    assert CODEC.invocation(asked, [asked, denied], SEARCH).error == "web_search failed: denied"
    assert CODEC.invocation(asked, [asked], SEARCH).error == "web_search has no result"
    assert not CODEC.is_over(asked, [asked])
    assert CODEC.is_over(asked, [asked, denied])


def test_an_answer_of_a_later_step_finds_its_call() -> None:
    """N24: Anthropic may answer after a pause or after calls of ours; it is one invocation."""
    asked = call("web_search", {"query": "a"})
    late = answer("web_search", [{"url": "https://a.org"}])

    by_answer = CODEC.invocation(late, [asked, late], SEARCH)

    assert by_answer == CODEC.invocation(asked, [asked, late], SEARCH)
    assert CODEC.invocations([asked, message("..."), late], SEARCH) == [by_answer]
    (lone,) = CODEC.invocations([late], SEARCH)
    assert (lone.params, lone.success) == (WebSearchAction(), True)
    assert CODEC.is_result(late, SEARCH)
    assert not CODEC.is_call(late, SEARCH)
    assert CODEC.is_over(late, [late])


def test_citations_are_placed_in_the_whole_text() -> None:
    """H38: spans of later pieces are shifted; one that does not fit, or is missing, is None."""
    cited: Item = {"kind": "web", "url": "https://a.org", "title": "A"}
    items = [
        call("web_search", {"query": "a"}),
        answer("web_search", [{"url": "https://a.org"}]),
        message("Zürich 🌉: "),
        message("cited", {**cited, "start": 0, "end": 5}),
        message(".", cited, {**cited, "start": 0, "end": 9}, {**cited, "url": None}),
    ]

    result = CODEC.parse_output(items, SEARCH)

    assert result is not None
    assert result.text == "Zürich 🌉: cited."
    assert result.citations == (
        Citation("https://a.org", "A", (10, 15)),
        Citation("https://a.org", "A", None),
        Citation("https://a.org", "A", None),
    )
    assert result.text[slice(*(result.citations[0].span or ()))] == "cited"


def test_a_failed_search_adds_no_sources() -> None:
    """H44: what a failed call names was not looked at."""
    items = [
        call("web_search", {"url": "https://gone.org"}, key="1"),
        answer("web_search", {"status": "failed"}, key="1"),
        call("web_search", {"query": "a"}, key="2"),
        answer("web_search", [{"url": "https://a.org"}], key="2"),
    ]

    result = CODEC.parse_output(items, SEARCH)

    assert result == WebSearchResult(
        "", source_urls=("https://a.org",), error="web_search failed: failed"
    )


@pytest.mark.parametrize("provider", ["openai-chat", "openrouter"])
def test_a_search_that_leaves_only_citations_is_told_by_them(provider: str) -> None:
    """H38: chat APIs tell of no calls; citations show that a search was made."""
    note = {"kind": "web", "url": "https://a.org", "title": "A"}
    codec = WebSearchCodec(provider)

    result = codec.parse_output([message("x", note)], SEARCH)

    assert result == WebSearchResult("x", (Citation("https://a.org", "A"),), ("https://a.org",))
    assert codec.parse_output([message("x")], SEARCH) is None
    assert CODEC.parse_output([message("x", note)], SEARCH) is None


def test_options_become_fields() -> None:
    """H35, H36, H37: each option has its field, and what is not set is not sent."""
    config = WebSearchConfig(
        DomainFilter(allowed=("a.org",)), GeoHint(country_code="GB", city="London")
    )

    assert CODEC.serialize(SEARCH) == {"type": "web_search"}
    assert CODEC.serialize(web_search_tool(config)) == {
        "type": "web_search",
        "allowed_domains": ["a.org"],
        "user_location": {"country": "GB", "city": "London"},
    }
    offline = web_search_tool(WebSearchConfig(allow_live_access=False))
    assert WebSearchCodec("openai-responses").serialize(offline)["external_web_access"] is False


def test_claude_is_made_to_search_by_itself() -> None:
    """N14: it would otherwise run code that nobody offered, and cite nothing."""
    direct = {"anthropic_web_tools_allowed_callers": ["direct"]}

    assert CODEC.contribute(SEARCH).body == direct
    assert FETCHER.contribute(FETCH).body == direct
    assert WebFetchCodec("google").contribute(FETCH).body == {}


def fetched(arguments: Any, content: Any) -> tuple[Any, ...]:
    items = [call("web_fetch", arguments), answer("web_fetch", content)]
    found = FETCHER.invocation(items[0], items, FETCH)
    return found.value, found.success, found.error


def test_a_page_comes_whole_or_by_its_outcome() -> None:
    """H30: Anthropic gives the page, Gemini only says how it went; a PDF is no text."""
    source = {"type": "text", "media_type": "text/plain", "data": "alpha"}
    page = {"url": "https://a.org", "retrieved_at": "2026-01-01", "type": "web_fetch_result"}
    document = {"type": "document", "title": "A", "source": source}
    pdf = {"type": "document", "title": None, "source": source | {"type": "base64"}}

    assert fetched({"url": "https://a.org"}, {**page, "content": document})[0] == WebFetchResult(
        (FetchedPage("https://a.org", "A", "alpha", "text/plain", "2026-01-01"),)
    )
    (made,) = fetched({}, {**page, "content": pdf})[0].pages
    assert (made.text, made.title, made.media_type) == ("", "", "text/plain")
    told = [
        {"retrieved_url": "https://a.org", "url_retrieval_status": "URL_RETRIEVAL_STATUS_SUCCESS"},
        {"retrieved_url": "https://b.org", "url_retrieval_status": "URL_RETRIEVAL_STATUS_PAYWALL"},
        {"retrieved_url": "https://c.org"},
    ]
    for content in (told, {"url_metadata": told}):
        value, success, _ = fetched({"urls": ["https://a.org"]}, content)
        assert success
        assert [(each.status, each.error) for each in value.pages] == [
            ("success", None),
            ("paywall", "web_fetch failed: paywall"),
            ("unknown", None),
        ]


def test_a_fetch_that_read_nothing_is_a_failure() -> None:
    """N17, H44: the code is in the error, and the page that is missing is in the output."""
    error = {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"}
    paywalled = [{"retrieved_url": "https://a.org", "url_retrieval_status": "PAYWALL"}]
    items = [call("web_fetch", {"url": "https://a.org"}), answer("web_fetch", error)]

    value, *outcome = fetched({"url": "https://a.org"}, error)
    assert outcome == [False, "web_fetch failed: url_not_accessible"]
    assert (value.status, value.error) == ("failed", outcome[1])
    value, *outcome = fetched({}, paywalled)
    assert outcome == [False, "web_fetch failed: paywall"]
    assert (value.status, value.error) == ("failed", outcome[1])
    assert FETCHER.parse_output(items, FETCH) == WebFetchResult(
        (
            FetchedPage(
                "https://a.org",
                status="url_not_accessible",
                error="web_fetch failed: url_not_accessible",
            ),
        ),
        status="failed",
        error="web_fetch failed: url_not_accessible",
    )
    assert fetched({}, None)[:2] == (WebFetchResult(), True)


def test_the_answer_of_a_fetch_comes_with_its_citations() -> None:
    """H38: text and citations belong to all fetches together."""
    note = {"kind": "web", "url": "https://a.org", "start": 0, "end": 2}
    items = [call("web_fetch"), answer("web_fetch", []), message("Hi", note)]

    result = FETCHER.parse_output(items, FETCH)

    assert result == WebFetchResult((), "Hi", (Citation("https://a.org", "", (0, 2)),))
    assert FETCHER.parse_output([message("Hi", note)], FETCH) is None


def test_options_of_a_fetch_become_fields() -> None:
    """H35: under the names of pydantic-ai's tool."""
    config = WebFetchConfig(DomainFilter(blocked=("b.org",)), 3, True, 500)

    assert FETCHER.serialize(FETCH) == {"type": "web_fetch"}
    assert FETCHER.serialize(web_fetch_tool(config)) == {
        "type": "web_fetch",
        "blocked_domains": ["b.org"],
        "max_uses": 3,
        "max_content_tokens": 500,
        "enable_citations": True,
    }


def test_a_search_of_x_gives_posts_like_a_web_search() -> None:
    """Its options become pydantic-ai's fields, and its citations are the addresses it looked at."""
    from toolcrib.adapters.pydantic_ai.codecs.x_search import XSearchCodec
    from toolcrib.tools.x_search import XSearchConfig, x_search_tool

    codec = XSearchCodec("xai")
    searching = x_search_tool(XSearchConfig(allowed_handles=("ann",), reads_images=True))

    assert codec.serialize(searching) == {  # pyright: ignore[reportArgumentType]
        "type": "x_search",
        "allowed_x_handles": ["ann"],
        "enable_image_understanding": True,
    }
    items = [
        call("x_search", {"query": "cribs"}),
        answer("x_search", {"citations": ["https://x.com/ann/1"]}),
    ]
    (ran,) = codec.invocations(items, searching)  # pyright: ignore[reportArgumentType]
    assert (ran.kind, ran.params.query) == ("x_search", "cribs")
    assert ran.value.source_urls == ("https://x.com/ann/1",)


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_handles": ("a",), "excluded_handles": ("b",)},
        {"allowed_handles": tuple(map(str, range(21)))},
        {"excluded_handles": "ann"},
        {"from_date": "yesterday"},
        {"reads_images": "yes"},
    ],
)
def test_wrong_options_of_a_search_of_x_are_refused(options: Any) -> None:
    """Each error names the option."""
    from toolcrib.errors import InvalidTool
    from toolcrib.tools.x_search import XSearchConfig

    with pytest.raises(InvalidTool, match="XSearchConfig"):
        XSearchConfig(**options)
