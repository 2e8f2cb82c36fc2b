"""File search to and from the Responses API."""

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
from toolcrib.adapters.openai.codecs.file_search import OpenAIFileSearchCodec
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.file_search import (
    Comparison,
    Compound,
    FileCitation,
    FileSearchConfig,
    FileSearchHit,
    FileSearchQuery,
    FileSearchResult,
    HybridWeights,
    Ranking,
    file_search_tool,
)

CODEC = OpenAIFileSearchCodec()
TOOL = file_search_tool(FileSearchConfig(("vs_1",)))


def serialized(**options: Any) -> dict[str, Any]:
    entry = CODEC.serialize(file_search_tool(FileSearchConfig(("vs_1",), **options)))
    assert_typed(entry)
    return entry


def call(**fields: Any) -> dict[str, Any]:
    return {"id": "fs_1", "type": "file_search_call", "status": "completed", **fields}


def message(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": list(annotations)}
    return {"type": "message", "content": [part]}


def parsed(*items: Any) -> FileSearchResult:
    result = CODEC.parse_output(items, TOOL)
    assert result is not None
    return result


def test_without_options_only_type_and_stores_are_sent() -> None:
    """H30: what is not set is left to the provider, not sent as null."""
    assert serialized() == {"type": "file_search", "vector_store_ids": ["vs_1"]}


def test_every_option_has_its_place() -> None:
    """H30: none is dropped."""
    ranking = Ranking("default-2024-11-15", 0.5, HybridWeights(embedding=0.7, text=0.3))

    assert serialized(max_results=50, ranking=ranking) == {
        "type": "file_search",
        "vector_store_ids": ["vs_1"],
        "max_num_results": 50,
        "ranking_options": {
            "ranker": "default-2024-11-15",
            "score_threshold": 0.5,
            "hybrid_search": {"embedding_weight": 0.7, "text_weight": 0.3},
        },
    }


def test_a_threshold_of_zero_is_sent_and_an_empty_ranking_is_not() -> None:
    """H30: zero is a choice; a ranking without any is none."""
    assert serialized(ranking=Ranking(score_threshold=0))["ranking_options"] == {
        "score_threshold": 0
    }
    assert "ranking_options" not in serialized(ranking=Ranking())


def test_a_comparison_becomes_a_filter() -> None:
    """H30: operator, attribute and value; a tuple of choices becomes a list."""
    assert serialized(filters=Comparison("year", "gte", 2024))["filters"] == {
        "type": "gte",
        "key": "year",
        "value": 2024,
    }
    assert serialized(filters=Comparison("team", "in", ("a", "b")))["filters"] == {
        "type": "in",
        "key": "team",
        "value": ["a", "b"],
    }


def test_filters_nest() -> None:
    """H30: a tree stays a tree, down to its leaves (where the SDK's types do not look)."""
    from openai.types.shared_params import ComparisonFilter
    from pydantic import TypeAdapter

    tree = Compound(
        "and",
        (
            Comparison("public", "eq", True),
            Compound("or", (Comparison("year", "lt", 2020), Comparison("year", "nin", (2021,)))),
        ),
    )

    filters = serialized(filters=tree)["filters"]

    leaves = [filters["filters"][0], *filters["filters"][1]["filters"]]
    assert (filters["type"], filters["filters"][1]["type"]) == ("and", "or")
    assert [leaf["type"] for leaf in leaves] == ["eq", "lt", "nin"]
    for leaf in leaves:
        TypeAdapter(ComparisonFilter).validate_python(leaf, extra="forbid")


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"max_results": 51}, "max_results"),
        ({"ranking": Ranking("best-of-2031")}, "ranking.ranker"),
    ],
)
def test_what_openai_cannot_do_is_refused(options: dict[str, Any], option: str) -> None:
    """H30: kind, option and provider are named before any request."""
    with pytest.raises(UnsupportedOption) as refused:
        serialized(**options)

    found = refused.value
    assert (found.kind, found.option, found.provider) == ("file_search", option, "openai")


def test_results_are_asked_for() -> None:
    """H39: without this include `results` is null."""
    assert CODEC.contribute(TOOL).include == ("file_search_call.results",)


def test_a_search_can_be_forced() -> None:
    """N18: `file_search` is a tool choice of its own."""
    from openai.types.responses import ToolChoiceTypesParam
    from pydantic import TypeAdapter

    assert CODEC.choice(TOOL) == {"type": "file_search"}
    TypeAdapter(ToolChoiceTypesParam).validate_python(CODEC.choice(TOOL), extra="forbid")


@pytest.mark.parametrize("items", [[], [message("hello")], [{"type": "file_search"}], [None, 5]])
def test_without_a_call_there_is_no_output(items: Items) -> None:
    """H30: None means that the tool was not invoked, and nothing else."""
    assert CODEC.parse_output(items, TOOL) is None


def test_a_search_gives_hits_queries_and_citations() -> None:
    """H30, H48: the plain case, end to end, with what the server adds to its own types."""
    assert parsed(*fixture("file_search")) == FileSearchResult(
        results=(
            FileSearchHit(
                file_id="file-1",
                filename="handbook.pdf",
                text="Everybody has 30 days of leave.",
                score=0.91,
                attributes={"year": 2026.0, "team": "people", "public": True},
                vector_store_id="vs_1",
            ),
            FileSearchHit("file-2", "faq.md", "Ask your manager first.", 0.4),
        ),
        queries=("leave policy", "days of leave"),
        citations=(
            FileCitation("file-1", "handbook.pdf", 16),
            FileCitation("file-2", "faq.md", 35),
        ),
        text="Leave is 30 days. Ask your manager.",
    )


def test_several_searches_are_read_together() -> None:
    """P19, E3: hits in order, each query once, places shifted by the text before them."""
    cited = {"type": "file_citation", "file_id": "b", "filename": "b.md", "index": 2}
    result = parsed(
        call(queries=["x", "y"], results=[{"file_id": "a"}]),
        message("12345"),
        call(queries=["y", "z"], results=[{"file_id": "b"}]),
        message("678", cited),
    )

    assert [hit.file_id for hit in result.results] == ["a", "b"]
    assert result.queries == ("x", "y", "z")
    assert result.text == "12345678"
    assert result.citations == (FileCitation("b", "b.md", 7),)


@pytest.mark.parametrize("index", [None, -1, 6, "2", True, 2.0, 10**30])
def test_a_wrong_place_is_left_out(index: Any) -> None:
    """E6: the citation stays, its place is not invented."""
    cited = {"type": "file_citation", "file_id": "a", "filename": "a.md", "index": index}

    assert parsed(call(), message("12345", cited)).citations == (FileCitation("a", "a.md", None),)


def test_results_may_be_missing() -> None:
    """E4: null without the include, and from servers that do not know it."""
    result = parsed(call(queries=["x"], results=None), message("text"))

    assert (result.results, result.queries, result.text) == ((), ("x",), "text")


def test_every_call_is_one_invocation() -> None:
    """N16, N21, N24: what was asked, what was found, and the item itself."""
    items = fixture("file_search")

    (found,) = CODEC.invocations(items, TOOL)

    assert found.raw is items[0]
    assert (found.item_id, found.kind) == ("fs_1", "file_search")
    assert found.params == FileSearchQuery(("leave policy", "days of leave"))
    assert [hit.file_id for hit in found.value.results] == ["file-1", "file-2"]
    assert found.message == (
        "handbook.pdf\nEverybody has 30 days of leave.\n\nfaq.md\nAsk your manager first."
    )
    assert (found.success, found.error) == (True, None)


@pytest.mark.parametrize("status", ["failed", "incomplete"])
def test_a_failed_call_says_so_in_its_value(status: str) -> None:
    """N17, X9, E5, H44, finding 7: the failure is told; what it asked is kept."""
    broken = call(status=status, queries=["x"], error="vector_store_timeout")

    found = CODEC.invocation(broken, [broken], TOOL)

    assert (found.success, found.value.status) == (False, status)
    assert found.value.error == found.error
    assert found.error == f"file_search_call {status}: vector_store_timeout"
    assert found.params == FileSearchQuery(("x",))
    assert parsed(broken, message("sorry")) == FileSearchResult(
        queries=("x",), text="sorry", status=status, error=found.error
    )


def test_objects_of_the_sdk_parse_like_plain_json() -> None:
    """P10, E4: annotations are objects there."""
    items = fixture("file_search")

    assert CODEC.parse_output(sdk_items(items), TOOL) == CODEC.parse_output(items, TOOL)


@given(mangled(fixture("file_search")))
def test_no_item_breaks_the_reader(items: Any) -> None:
    """E4: whatever is missing or of the wrong type, calls are counted and places stay in bounds."""
    found = CODEC.invocations(only_objects(items), TOOL)
    result = CODEC.parse_output(items, TOOL) or FileSearchResult()

    assert (CODEC.parse_output(items, TOOL) is None) == (not found)
    for citation in result.citations:
        assert citation.index is None or 0 <= citation.index <= len(result.text)


@pytest.mark.parametrize("path", recordings("openai", "azure", "xai"))
def test_recorded_traffic_is_read(path: Path) -> None:
    """H48, N24: in real traffic each call is one invocation, and places lie in the text."""
    for items in recorded_outputs(path):
        calls = [item for item in items if item["type"] == "file_search_call"]
        found = CODEC.invocations(items, TOOL)
        result = CODEC.parse_output(items, TOOL)

        assert [each.raw for each in found] == calls
        assert all(each.success == (each.error is None) for each in found)
        assert (result is None) == (not calls)
        for citation in result.citations if result else ():
            assert citation.file_id
            assert citation.index is None or result is None or citation.index <= len(result.text)
