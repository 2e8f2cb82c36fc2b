"""File search: its options, its output and its factory."""

import dataclasses
import math
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.tools.file_search import (
    Comparison,
    Compound,
    FileSearchConfig,
    FileSearchHit,
    FileSearchResult,
    HybridWeights,
    Ranking,
    file_search_tool,
)
from toolcrib.tools.provider_tools import HostedToolConfig

IS_PUBLIC = Comparison("public", "eq", True)


@pytest.mark.parametrize(
    "made",
    [
        FileSearchConfig(("vs_1",)),
        Ranking(),
        HybridWeights(1, 0),
        IS_PUBLIC,
        Compound("or", (IS_PUBLIC,)),
        FileSearchHit("f"),
        FileSearchResult(),
    ],
)
def test_options_and_results_are_frozen_and_slotted(made: Any) -> None:
    """H2, H5: nothing can change after its check, and everything can be a key."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(made)[0].name, "x")
    assert not hasattr(made, "__dict__")
    assert hash(made) == hash(dataclasses.replace(made))
    assert isinstance(made, HostedToolConfig)


def test_everything_but_the_stores_is_left_to_the_provider() -> None:
    """H2: no default is invented here."""
    assert FileSearchConfig(("vs_1",)) == FileSearchConfig(
        vector_store_ids=("vs_1",), max_results=None, filters=None, ranking=None
    )


@pytest.mark.parametrize("stores", [(), ["vs_1"], "vs_1", ("",), (" ",), (5,), None])
def test_stores_must_be_named(stores: Any) -> None:
    """H2: a lone text would be read letter by letter, and a search of nothing finds nothing."""
    with pytest.raises(InvalidTool, match=r"FileSearchConfig\.vector_store_ids"):
        FileSearchConfig(stores)


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "3"])
def test_results_are_counted_from_one(count: Any) -> None:
    """H2: the most is for the provider to say, the least is one."""
    with pytest.raises(InvalidTool, match=r"FileSearchConfig\.max_results"):
        FileSearchConfig(("vs_1",), max_results=count)


@pytest.mark.parametrize(
    ("field", "value"), [("filters", {"type": "eq"}), ("ranking", {"ranker": "auto"})]
)
def test_parts_of_the_config_are_of_their_type(field: str, value: Any) -> None:
    """H2: a dict in a provider's words is not a neutral option."""
    with pytest.raises(InvalidTool, match=rf"FileSearchConfig\.{field}"):
        FileSearchConfig(("vs_1",), **{field: value})


@pytest.mark.parametrize("value", ["a", 1, 1.5, True, False, 10**400])
def test_one_value_is_compared(value: Any) -> None:
    """H2: texts, numbers and bools."""
    assert Comparison("k", "ne", value).value is value


@pytest.mark.parametrize("value", [None, ("a",), ["a"], math.nan, math.inf, {}])
def test_other_values_are_refused(value: Any) -> None:
    """H2: what is not JSON, or not one value, has no meaning here."""
    with pytest.raises(InvalidTool, match=r"Comparison\.value .* for 'eq'"):
        Comparison("k", "eq", value)


@pytest.mark.parametrize("operator", ["in", "nin"])
@pytest.mark.parametrize("value", [(), "ab", ["a"], (True,), (math.nan,), (None,), 5])
def test_choices_come_in_a_tuple(operator: Any, value: Any) -> None:
    """H2: `in` takes texts or numbers, and at least one."""
    assert Comparison("k", operator, ("a", 1, 1.5)).value == ("a", 1, 1.5)
    with pytest.raises(InvalidTool, match=r"Comparison\.value must be a tuple"):
        Comparison("k", operator, value)


@pytest.mark.parametrize("key", ["", " ", None, 3])
def test_an_attribute_must_be_named(key: Any) -> None:
    """H2: a comparison without an attribute compares nothing."""
    with pytest.raises(InvalidTool, match=r"Comparison\.key"):
        Comparison(key, "eq", 1)


def test_operators_are_known() -> None:
    """H2: a misspelt operator is refused where it is written."""
    wrong: Any = "=="

    with pytest.raises(InvalidTool, match=r"Comparison\.operator must be one of eq, ne"):
        Comparison("k", wrong, 1)
    with pytest.raises(InvalidTool, match=r"Compound\.operator must be one of and, or"):
        Compound(wrong, (IS_PUBLIC,))


@pytest.mark.parametrize("filters", [(), [IS_PUBLIC], IS_PUBLIC, ({"type": "eq"},), (None,)])
def test_a_compound_has_filters(filters: Any) -> None:
    """H2: at least one, in a tuple, each of the two kinds."""
    with pytest.raises(InvalidTool, match=r"Compound\.filters"):
        Compound("and", filters)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, True, "1", math.nan])
def test_a_threshold_lies_between_zero_and_one(threshold: Any) -> None:
    """H2: both ends included."""
    assert [Ranking(score_threshold=n).score_threshold for n in (0, 1)] == [0, 1]
    with pytest.raises(InvalidTool, match=r"Ranking\.score_threshold must be a number from 0 to 1"):
        Ranking(score_threshold=threshold)


@pytest.mark.parametrize(
    ("field", "value"), [("ranker", ""), ("ranker", 5), ("hybrid", (0.5, 0.5))]
)
def test_a_ranking_is_checked(field: str, value: Any) -> None:
    """H2: a name, and weights of their own type."""
    with pytest.raises(InvalidTool, match=rf"Ranking\.{field}"):
        Ranking(**{field: value})


@pytest.mark.parametrize("weights", [(-1, 1), (1, math.inf), (math.nan, 1), (True, 1), (0, 0)])
def test_weights_are_numbers_that_weigh_something(weights: Any) -> None:
    """H2: not negative, finite, and not both nothing."""
    with pytest.raises(InvalidTool, match="HybridWeights"):
        HybridWeights(*weights)


def test_the_factory_sets_kind_and_description() -> None:
    """H41: the same recipe as for web search."""
    config = FileSearchConfig(("vs_1",))
    tool = file_search_tool(config, name="handbook")

    assert (tool.kind, tool.name, tool.config) == ("file_search", "handbook", config)
    assert file_search_tool(config).name == "file_search"


def test_a_result_renders_its_answer_or_its_passages() -> None:
    """N16: what a reader sees of a search."""
    hits = (FileSearchHit("file-1", "a.md", "one"), FileSearchHit("file-2", text="two"))

    assert FileSearchResult(hits, text="answer").render() == "answer"
    assert FileSearchResult(hits).render() == "a.md\none\n\nfile-2\ntwo"
    assert FileSearchResult().render() == ""
