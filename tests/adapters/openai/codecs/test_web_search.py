"""Web search to and from the Responses API."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.adapters.openai.response_samples import (
    Items,
    fixture,
    mangled,
    only_objects,
    recorded_outputs,
    recordings,
    sdk_items,
)
from tests.adapters.openai.typed_tools import assert_typed
from toolcrib.adapters.openai.codecs.web_search import OpenAIWebSearchCodec
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.web_search import (
    Citation,
    DomainFilter,
    GeoHint,
    WebSearchAction,
    WebSearchConfig,
    WebSearchResult,
    web_search_tool,
)

CODEC = OpenAIWebSearchCodec()
TOOL = web_search_tool()


def serialized(**options: Any) -> dict[str, Any]:
    entry = CODEC.serialize(web_search_tool(WebSearchConfig(**options)))
    assert_typed(entry)
    return entry


def call(**fields: Any) -> dict[str, Any]:
    return {"id": "ws_1", "type": "web_search_call", "status": "completed", **fields}


def message(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": list(annotations)}
    return {"type": "message", "content": [part]}


def parsed(*items: Any) -> WebSearchResult:
    result = CODEC.parse_output(items, TOOL)
    assert result is not None
    return result


def test_without_options_only_the_type_is_sent() -> None:
    """H34, H37: a default search says nothing but what it is; nothing is sent as null."""
    assert serialized() == {"type": "web_search"}


def test_neither_name_nor_description_is_sent() -> None:
    """P20: hosted tools have none on the wire."""
    assert CODEC.serialize(web_search_tool(name="cached_search")) == {"type": "web_search"}


@pytest.mark.parametrize(
    ("domains", "filters"),
    [
        (DomainFilter(allowed=("a.org",)), {"allowed_domains": ["a.org"]}),
        (DomainFilter(blocked=("b.org",)), {"blocked_domains": ["b.org"]}),
        (
            DomainFilter(allowed=("a.org", "c.org"), blocked=("b.a.org",)),
            {"allowed_domains": ["a.org", "c.org"], "blocked_domains": ["b.a.org"]},
        ),
    ],
)
def test_domains_become_filters(domains: DomainFilter, filters: dict[str, Any]) -> None:
    """H35, H17: each list has its field, and OpenAI takes both at once."""
    assert serialized(domain_filter=domains) == {"type": "web_search", "filters": filters}


def test_an_empty_domain_filter_is_left_out() -> None:
    """H35: no list, no filters."""
    assert serialized(domain_filter=DomainFilter()) == {"type": "web_search"}


@pytest.mark.parametrize("side", ["allowed", "blocked"])
def test_more_domains_than_openai_takes_are_refused(side: str) -> None:
    """H35: a filter that would be cut short or refused later is named before any request."""
    domains = tuple(f"d{n}.org" for n in range(101))
    tool = web_search_tool(WebSearchConfig(domain_filter=DomainFilter(**{side: domains})))

    with pytest.raises(UnsupportedOption, match=rf"openai.*domain_filter\.{side}.*web_search.*100"):
        CODEC.serialize(tool)


def test_a_geo_hint_becomes_a_location() -> None:
    """H36: approximate, with only the fields that are set."""
    hint = GeoHint(country_code="GB", city="London", timezone="Europe/London")

    assert serialized(geo_hint=hint)["user_location"] == {
        "type": "approximate",
        "country": "GB",
        "city": "London",
        "timezone": "Europe/London",
    }
    assert serialized(geo_hint=GeoHint(region="Kent"))["user_location"] == {
        "type": "approximate",
        "region": "Kent",
    }


def test_an_empty_geo_hint_is_not_the_same_as_none() -> None:
    """H36: without a location the provider assumes the United States; an empty one stops that."""
    assert serialized(geo_hint=GeoHint())["user_location"] == {"type": "approximate"}
    assert "user_location" not in serialized(geo_hint=None)


def test_live_access_can_be_switched_off() -> None:
    """H37: false is sent, true is the provider's default and is not."""
    assert serialized(allow_live_access=False)["external_web_access"] is False
    assert "external_web_access" not in serialized(allow_live_access=True)


def test_sources_are_asked_for() -> None:
    """H39: without this include the addresses that were consulted never arrive."""
    contribution = CODEC.contribute(TOOL)

    assert contribution.include == ("web_search_call.action.sources",)
    assert contribution.tools == ({"type": "web_search"},)


def test_a_search_is_forced_through_the_allowed_tools() -> None:
    """P21, N18: `web_search` is not among the types that `tool_choice` takes by themselves."""
    from openai.types.responses import ToolChoiceAllowedParam
    from pydantic import TypeAdapter

    choice = CODEC.choice(TOOL)

    assert choice == {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "web_search"}],
    }
    TypeAdapter(ToolChoiceAllowedParam).validate_python(choice, extra="forbid")


@pytest.mark.parametrize("items", [[], [message("hello")], [{"type": "web_search"}], [None, 5]])
def test_without_a_call_there_is_no_output(items: Items) -> None:
    """H30, H38: None means that the tool was not invoked, and nothing else."""
    assert CODEC.parse_output(items, TOOL) is None


def test_one_search_gives_text_citations_and_sources() -> None:
    """H38, H39, H48: the plain case, end to end."""
    result = parsed(*fixture("web_search"))

    assert result.text == "The bridge opened in 1932 (bridges.example)."
    (citation,) = result.citations
    assert citation.url == "https://bridges.example/history"
    assert citation.title == "A history of the bridge"
    assert citation.span is not None
    assert result.text[slice(*citation.span)] == "(bridges.example)"
    assert result.source_urls == ("https://bridges.example/history", "https://harbour.example/")


def test_spans_hold_over_several_parts_and_messages() -> None:
    """H38, P19, E6: indexes count from their own part; ours count in the whole text."""
    result = parsed(*fixture("web_search_many"))

    assert result.text.startswith("Zürich, café 🌉 first: tides")
    assert result.text.endswith("then the bridge (bridges.example).")
    assert "not part of the answer" not in result.text
    spans = [citation.span for citation in result.citations]
    assert [result.text[slice(*span)] for span in spans if span] == [
        "(tides.example)",
        "(bridges.example)",
    ]


def test_every_address_is_listed_once_in_order() -> None:
    """H39, P18: sources and pages that were opened; feeds have no address, failures none either."""
    assert parsed(*fixture("web_search_many")).source_urls == (
        "https://tides.example/a",
        "https://tides.example/b",
    )


@pytest.mark.parametrize(
    ("start", "end"),
    [(None, 3), (0, None), (-1, 3), (3, 3), (4, 2), (0, 6), ("0", "3"), (True, 3), (0, 10**30)],
)
def test_a_wrong_span_is_left_out(start: Any, end: Any) -> None:
    """H38, E6: a span is never invented, and never reaches past its part into another."""
    note = {"type": "url_citation", "url": "https://a.example", "title": "A"}
    wrong = {**note, "start_index": start, "end_index": end}

    result = parsed(call(), message("12345", wrong, note), message("67890"))

    assert result.citations == (Citation("https://a.example", "A"),) * 2


def test_other_annotations_are_no_citations() -> None:
    """H38: only `url_citation` is; and one without an address cites nothing."""
    notes = [{"type": "file_citation", "file_id": "f"}, {"type": "url_citation", "title": "A"}]

    assert parsed(call(), message("text", *notes)).citations == ()


def test_a_message_may_lack_annotations() -> None:
    """E6: under structured output, and from some endpoints, there are none."""
    bare = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}

    assert parsed(call(), bare) == WebSearchResult("hi")


def test_every_call_is_one_invocation_in_order() -> None:
    """N24, N26, P18: searches, opened pages and looks into pages alike."""
    items = fixture("web_search_many")
    calls = [item for item in items if item["type"] == "web_search_call"]

    found = CODEC.invocations(items, TOOL)

    assert [each.item_id for each in found] == ["ws_1", "ws_2", "ws_3", "ws_4"]
    assert all(each.raw is item for each, item in zip(found, calls, strict=True))
    assert [each.params for each in found] == [
        WebSearchAction("search", ("tides", "tide tables")),
        WebSearchAction("open_page", url="https://tides.example/b"),
        WebSearchAction("find_in_page", url="https://tides.example/b", pattern="spring tide"),
        WebSearchAction("open_page", url="https://gone.example/"),
    ]


def test_an_invocation_tells_what_was_asked_and_where_it_looked() -> None:
    """N21: a reader of the event needs no other item to know what the call did."""
    first, second, third, _ = CODEC.invocations(fixture("web_search_many"), TOOL)

    assert first.message == "search: tides; tide tables\nhttps://tides.example/a"
    assert first.value == WebSearchResult("", source_urls=("https://tides.example/a",))
    assert second.message == "open_page: https://tides.example/b\nhttps://tides.example/b"
    assert third.message.startswith("find_in_page: spring tide; https://tides.example/b")
    assert (first.success, first.error, first.kind) == (True, None, "web_search")


def test_a_failed_call_says_so_in_its_value() -> None:
    """N17, X9, E5, H44, finding 7: the provider's failure is data, with its status and code."""
    failed = call(status="failed", error={"code": "search_down", "message": "try later"})

    found = CODEC.invocation(failed, [failed], TOOL)

    assert not found.success
    assert (found.value.status, found.value.error) == ("failed", found.error)
    assert found.error == found.message == "web_search_call failed: search_down: try later"


@pytest.mark.parametrize("status", ["searching", "in_progress", "completed", "brand_new", None, 3])
def test_only_a_failure_is_a_failure(status: Any) -> None:
    """E4: finished responses hold calls that still say `searching`, and statuses are open."""
    assert CODEC.invocation(call(status=status), [], TOOL).success


def test_an_incomplete_call_is_not_a_success() -> None:
    """E5: cut off is not done."""
    found = CODEC.invocation(call(status="incomplete"), [], TOOL)

    assert (found.success, found.value.status) == (False, "incomplete")


def test_the_older_query_field_is_read_and_not_repeated() -> None:
    """P18: servers send `query`, `queries`, or both."""
    old = call(action={"type": "search", "query": "tides"})
    both = call(action={"type": "search", "query": "tides", "queries": ["tides", "moon"]})

    assert CODEC.invocation(old, [], TOOL).params.queries == ("tides",)
    assert CODEC.invocation(both, [], TOOL).params.queries == ("tides", "moon")


def test_arguments_stand_in_for_a_missing_action() -> None:
    """E4: other servers of this API tell what was searched as a function call's arguments."""
    told = call(arguments='{"query": "tides", "num_results": 5}')

    assert CODEC.invocation(told, [], TOOL).params == WebSearchAction("search", ("tides",))
    assert CODEC.invocation(call(arguments="{broken"), [], TOOL).params == WebSearchAction()


@pytest.mark.parametrize("name", ["web_search", "web_search_many"])
def test_objects_of_the_sdk_parse_like_plain_json(name: str) -> None:
    """P5, E4: the client's objects have the wrong class for unknown types; `type` decides."""
    items = fixture(name)

    assert CODEC.parse_output(sdk_items(items), TOOL) == CODEC.parse_output(items, TOOL)


@given(mangled(fixture("web_search_many")))
def test_no_item_breaks_the_reader(items: Any) -> None:
    """E4: whatever is missing or of the wrong type, calls are counted and spans stay in bounds."""
    found = CODEC.invocations(only_objects(items), TOOL)
    result = CODEC.parse_output(items, TOOL)

    assert (result is None) == (not found)
    for citation in result.citations if result else ():
        assert citation.span is None or 0 <= citation.span[0] < citation.span[1] <= len(
            result.text if result else ""
        )


@pytest.mark.parametrize("path", recordings("openai", "azure", "xai"))
def test_recorded_traffic_is_read(path: Path) -> None:
    """H48, N24: in real traffic each call is one invocation, and each span marks some text."""
    for items in recorded_outputs(path):
        calls = [item for item in items if item["type"] == "web_search_call"]
        found = CODEC.invocations(items, TOOL)
        result = CODEC.parse_output(items, TOOL)

        assert [each.raw for each in found] == calls
        assert all(each.success == (each.error is None) and each.message for each in found)
        assert (result is None) == (not calls)
        for citation in result.citations if result else ():
            assert citation.url
            assert citation.span is None or result is None or result.text[slice(*citation.span)]
